# shellcheck shell=bash
# What the checks share: the client, a verdict for each check, the tenant's own network and key, what must be gone afterwards.

FAILED=0 NAME=check$$ KEY=

begin_checks() {
    WORK=$(mktemp -d)
    KEY=$WORK/key
    export OS_CLIENT_CONFIG_FILE=$STACK_DIR/clouds.yaml OS_CLOUD=nova-lite-demo
}

end_checks() {
    [ "$FAILED" = 0 ] || die "$FAILED checks failed"
    say "all checks passed"
}

# the stock client, told to be silent about what it deprecates
cloud() { "$BIN/openstack" "$@"; }
value() { cloud "${@:2}" -f value -c "$1"; }    # COLUMN COMMAND...

# check TEXT COMMAND...: prints the verdict; the output of what failed follows it.
check() {
    local text=$1 output
    shift
    if output=$("$@" 2>&1); then
        say "OK      $text"
    else
        FAILED=$((FAILED + 1))
        say "FAILED  $text"
        printf '%s\n' "$output" | uniq | tail -n 20 | sed 's/^/            /'
    fi
}

# try SECONDS COMMAND...: until it succeeds
try() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 1
    done
}

not() { ! "$@"; }

guest() { # ADDRESS COMMAND: run in the guest; a session in whose middle a rule goes would never end
    timeout 60 ssh -i "$KEY" -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
        -o ConnectTimeout=4 "root@$1" "$2"
}

guest_says() { # ADDRESS COMMAND PATTERN
    guest "$1" "$2" | tee /dev/stderr | grep -q -- "$3"
}

equal() {
    [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }
}

make_key() {
    ssh-keygen -q -t ed25519 -N '' -f "$KEY" <<<y >/dev/null
    cloud keypair create --public-key "$KEY.pub" "$NAME"
}

make_network() {
    cloud network create "$NAME"
    cloud subnet create --network "$NAME" --subnet-range 10.99.0.0/24 "$NAME"
    cloud router create "$NAME"
    cloud router set --external-gateway public "$NAME"
    cloud router add subnet "$NAME" "$NAME"
}

make_group() {
    cloud security group create "$NAME"
    cloud security group rule create --protocol icmp "$NAME"
    cloud security group rule create --protocol tcp --dst-port 22 "$NAME"
}

make_image() {
    cloud image create --disk-format qcow2 --container-format bare --file "$(tiny_image)" "$NAME"
}

set_up() {
    check "image upload" make_image
    check "network, subnet, router with a gateway" make_network
    check "security group with rules" make_group
    check "key pair" make_key
}

boot() { # SERVER ARGUMENT...
    local server=$1
    shift
    cloud server create --flavor m1.nano --network "$NAME" --security-group "$NAME" --key-name "$NAME" --wait "$@" "$server"
    cloud server show "$server" -c status -f value | grep -qx ACTIVE
}

# The address of a server on the tenant's network; a floating one beside it that answers on this machine.
fixed_address() { value addresses server show "$1" | grep -o '10\.99\.0\.[0-9]*' | head -n 1; }

float() { # SERVER: prints the floating IP
    local address
    address=$(value floating_ip_address floating ip create public)
    cloud server add floating ip "$1" "$address" >&2
    echo "$address"
}

# Everything that the checks made, whatever state it is in. Quiet: much of it may never have been made.
clean_up() {
    local one
    for one in $(names server); do cloud server delete --wait "$one" || true; done
    for one in $(cloud floating ip list -f value -c ID); do cloud floating ip delete "$one" || true; done
    for one in $(names "volume snapshot"); do cloud volume snapshot delete "$one" || true; done
    try 30 no_names "volume snapshot" || true
    for one in $(names volume); do cloud volume delete "$one" || true; done
    {
        cloud router remove subnet "$NAME" "$NAME"
        cloud router delete "$NAME"
        cloud network delete "$NAME"
        cloud security group delete "$NAME"
        cloud keypair delete "$NAME"
        cloud image delete "$NAME"
    } >/dev/null 2>&1 || true
}

names() { # KIND: names of this run
    local kind=$1
    # shellcheck disable=SC2086  # "volume snapshot" is two words
    cloud $kind list -f value -c Name 2>/dev/null | grep "^$NAME" || true
}

no_names() { [ -z "$(names "$1")" ]; }

# --- after all servers are gone
no_ports() { ! OS_CLOUD=nova-lite cloud port list -f value -c ID -c device_owner | grep compute:; }
no_attachments() { [ -z "$(OS_CLOUD=nova-lite cloud --os-volume-api-version 3.27 volume attachment list --all-projects -f value)" ]; }
no_taps() { # COMMAND that runs it where they are; taps of OVN's metadata agents are of the type veth
    ! { "$@" ip -o link show type tun; "$@" ip -o link | grep -v ': tap'; } | grep -E ': (tap|qvo|qvb|vhu)[0-9a-f-]{11}[:@]'
}
no_files() { # STATE_PATH
    local found
    found=$(find "$1/instances" -mindepth 1 -not -path "*/_base*" 2>/dev/null)
    [ -z "$found" ] || { echo "$found"; return 1; }
}
no_guests() { [ -z "$(virsh -q -c "qemu+unix:///system?socket=$1/libvirt/run/libvirt-sock" list --all)" ]; } # DIRECTORY

check_leftovers() {
    check "no server's port is left in Neutron" try 20 no_ports
    check "volume attachment list is empty" no_attachments
    check "no tap is left" no_taps env
    check "no file of a guest is left" no_files "$DATA/nova_lite"
    check "no domain is left in libvirt" no_guests "$STACK_DIR"
    two_hosts || return 0
    check "no tap is left on $HOST2" no_taps "${IN_HOST2[@]}"
    check "no file of a guest is left on $HOST2" no_files "$HOST2_DIR/nova_lite"
    check "no domain is left in libvirt of $HOST2" no_guests "$HOST2_DIR"
}
