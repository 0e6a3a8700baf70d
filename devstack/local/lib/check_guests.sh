# shellcheck shell=bash
# Two guests on the tenant's network.

check_guests() {
    local one=$NAME-one two=$NAME-two float fixed_one fixed_two
    # shellcheck disable=SC2016  # the guest expands it
    printf '#!/bin/sh\necho "user data of $(hostname) ran"\n' >"$WORK/script"
    gzip -k "$WORK/script"
    check "server create --wait with a Neutron port" boot "$one" --image "$NAME" --user-data "$WORK/script"
    fixed_one=$(fixed_address "$one")
    float=$(float "$one") || true
    check "ssh in by its floating IP $float" try 240 guest "$float" true
    check "DHCP gave the port's address $fixed_one" guest_says "$float" "ip -4 address show eth0" "$fixed_one/24"
    check "metadata through Neutron: its own id" guest_says "$float" \
        "wget -q -O - http://169.254.169.254/openstack/latest/meta_data.json" "$(value id server show "$one")"
    check "EC2 metadata: its own address" guest_says "$float" \
        "wget -q -O - http://169.254.169.254/latest/meta-data/local-ipv4" "$fixed_one"
    check "host name from metadata" guest_says "$float" hostname "$one"
    check "its user data ran" console_shows "$one" "user data of $one ran"
    check "a second guest" boot "$two" --image "$NAME" --user-data "$WORK/script.gz"
    fixed_two=$(fixed_address "$two")
    check "ping from the first to the second" try 240 guest "$float" "ping -c 2 -W 2 $fixed_two"
    check "its user data, packed by gzip, ran" try 60 console_shows "$two" "user data of $two ran"
    check_ssh_rule "$float"
    check "console log" console_shows "$two" "login:"
    check "soft reboot" cloud server reboot --wait "$one"
    check "ssh after it" try 240 guest "$float" true
    check "stop" cloud server stop "$two"
    check "SHUTOFF" try 60 status_is "$two" SHUTOFF
    check "start" cloud server start "$two"
    check "ACTIVE" try 60 status_is "$two" ACTIVE
    check "ping after it" try 240 guest "$float" "ping -c 2 -W 2 $fixed_two"
    check "delete both" cloud server delete --wait "$one" "$two"
}

status_is() { equal "$(value status server show "$1")" "$2"; }
console_shows() { cloud console log show "$1" | grep -q "$2"; }

check_ssh_rule() { # ADDRESS
    local rule
    rule=$(cloud security group rule list --protocol tcp -f value -c ID "$NAME")
    check "a deleted rule closes ssh" close_ssh "$1" "$rule"
    cloud security group rule create --protocol tcp --dst-port 22 "$NAME" >/dev/null
    check "a new rule opens it again" try 40 guest "$1" true
}

close_ssh() { # ADDRESS RULE
    cloud security group rule delete "$2"
    try 40 not guest "$1" true
    not guest "$1" true
}
