# shellcheck shell=bash
# What DevStack offers to its plugins, as recorders: each call becomes a line of $RECORD, its words separated by tabs.
# Only functions that DevStack has are here, so that a call of any other fails the test.

record() {
    local IFS=$'\t'
    echo "$*" >>"$RECORD"
}

define_plugin() { record define_plugin "$@"; }
enable_service() { record enable_service "$@"; ENABLED="${ENABLED:-} $*"; }
disable_service() { record disable_service "$@"; }
is_service_enabled() {
    local service
    for service; do
        case " ${ENABLED:-} " in *" $service "*) return 0 ;; esac
    done
    return 1
}
echo_summary() { record echo_summary "$@"; }
get_python_exec_prefix() { echo "$BIN"; }
install_package() { record install_package "$@"; }
setup_develop() { record setup_develop "$@"; }
iniset() { record iniset "$@"; }
iniget() {
    awk -F'\t' -v file="$1" -v section="$2" -v key="$3" \
        '$1 == "iniset" && $2 == file && $3 == section && $4 == key {value = $5} END {print value}' "$RECORD"
}
iniset_rpc_backend() { iniset "$2" DEFAULT transport_url "rabbit://stackrabbit:secret@127.0.0.1:5672/"; }
database_connection_url() { echo "mysql+pymysql://root:secret@127.0.0.1/$1?charset=utf8"; }
recreate_database() { record recreate_database "$@"; }
configure_keystone_authtoken_middleware() { # FILE USER [SECTION]
    local section=${3:-keystone_authtoken}
    iniset "$1" "$section" auth_type password
    iniset "$1" "$section" auth_url "$KEYSTONE_SERVICE_URI"
    iniset "$1" "$section" username "$2"
    iniset "$1" "$section" password "$SERVICE_PASSWORD"
}
create_service_user() { record create_service_user "$@"; }
get_or_create_service() { record get_or_create_service "$@"; }
get_or_create_endpoint() { record get_or_create_endpoint "$@"; }
run_process() { record run_process "$@"; }
stop_process() { record stop_process "$@"; }
wait_for_service() { record wait_for_service "$@"; }
sudo() { record sudo "$@"; "$@"; }
openstack() {
    record openstack "$@"
    [[ " $* " != *" flavor show "* ]]
}
