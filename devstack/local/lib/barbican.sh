# shellcheck shell=bash
# Barbican (kind "real" only): the keys of encrypted volumes, in its database, encrypted with a key of its configuration. Orders
# are carried out by the API itself, so there is no worker.

# it looks for its configuration in ~/.barbican and in /etc/barbican, which is the machine's
barbican_home() { HOME=$ETC/barbican "$@"; }

configure_barbican() {
    mkdir -p "$ETC/barbican/.barbican"
    cp "$STACK_VENV/etc/barbican/barbican-api-paste.ini" "$ETC/barbican/"
    cat >"$ETC/barbican/.barbican/barbican.conf" <<EOF
[DEFAULT]
$(conf_log)
host_href = http://$STACK_HOST:$P_BARBICAN
transport_url = $(broker_url)
$(conf_database barbican)
[simple_crypto_plugin]
kek = $(password | base64 -w 0 | tr +/ -_)
$(conf_authtoken barbican)
[oslo_policy]
policy_file = $ETC/barbican/policy.yaml
$(conf_no_notifications)
EOF
    # as it is by default, and services may use the keys of all projects: a guest is started again without its user's token
    cat >"$ETC/barbican/policy.yaml" <<'EOF'
"secret:decrypt": "rule:secret_project_admin or (rule:secret_project_member and (rule:secret_owner or rule:secret_is_not_private))
  or rule:secret_acl_read or role:service"
EOF
}

start_barbican() {
    sql -e "CREATE DATABASE IF NOT EXISTS barbican CHARACTER SET utf8mb4"
    barbican_home "$BIN/barbican-db-manage" upgrade
    STACK_BARBICAN_PASTE=$ETC/barbican/barbican-api-paste.ini barbican_home start_wsgi barbican stack_barbican "$P_BARBICAN"
    wait_until barbican 90 answers "http://$STACK_HOST:$P_BARBICAN/"
}
