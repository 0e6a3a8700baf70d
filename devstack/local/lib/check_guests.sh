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
    check "vendor data from metadata" guest_says "$float" \
        "wget -q -O - http://169.254.169.254/openstack/latest/vendor_data.json" '"stack": "nova-lite"'
    check "a password that the guest posts" post_password "$one" "$float"
    check "EC2 metadata: its own address" guest_says "$float" \
        "wget -q -O - http://169.254.169.254/latest/meta-data/local-ipv4" "$fixed_one"
    check "host name from metadata" guest_says "$float" hostname "$one"
    check "its user data ran" console_shows "$one" "user data of $one ran"
    check "a second guest" boot "$two" --image "$NAME" --user-data "$WORK/script.gz" --hint "different_host=$(value id server show "$one")"
    if [ "$STACK_HOSTS" = 2 ]; then
        check "on the other host" not equal "$(value hostId server show "$one")" "$(value hostId server show "$two")"
    fi
    fixed_two=$(fixed_address "$two")
    check "ping from the first to the second" try 240 guest "$float" "ping -c 2 -W 2 $fixed_two"
    check "its user data, packed by gzip, ran" try 60 console_shows "$two" "user data of $two ran"
    check_ssh_rule "$float"
    check "console log" console_shows "$two" "login:"
    check "the first one's screen in noVNC" screen_opens "$one"
    check "the second one's screen in noVNC" screen_opens "$two"
    check "its serial console" serial_opens "$two"
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

# What the guest posts, its owner reads.
post_password() { # SERVER ADDRESS
    guest "$2" "wget -q -O - --post-data of-$1 http://169.254.169.254/openstack/latest/password"
    curl -s -m 20 --noproxy '*' -H "X-Auth-Token: $(value id token issue)" \
        "http://$STACK_HOST:$P_COMPUTE/v2.1/servers/$(value id server show "$1")/os-server-password" |
        tee /dev/stderr | grep -q "\"of-$1\""
}

screen_opens() { # SERVER: noVNC's page comes, and its websocket speaks RFB
    local url
    url=$(value url console url show --novnc "$1")
    equal "$(http_status "$url")" 200
    upgrades "$P_NOVNC" "${url##*[=D]}" 'RFB 003'
}

serial_opens() { # SERVER
    local url
    url=$(value url console url show --serial "$1")
    upgrades "$P_SERIAL" "${url##*=}" ''
}

upgrades() { # PORT TOKEN WORDS: an upgrade to a websocket answers 101, then what begins with WORDS
    local socket said
    exec {socket}<>"/dev/tcp/$STACK_HOST/$1"
    printf '%s\r\n' "GET /websockify?token=$2 HTTP/1.1" "Host: $STACK_HOST:$1" "Upgrade: websocket" "Connection: Upgrade" \
        "Sec-WebSocket-Key: bm92YS1saXRlIHN0YWNrLg==" "Sec-WebSocket-Version: 13" "Sec-WebSocket-Protocol: binary" "" >&"$socket"
    said=$(timeout 5 sed -u '/RFB/q' <&"$socket" | tr -d '\0\r') || true
    exec {socket}>&-
    echo "$said"
    grep -aq '101 Switching' <<<"$said" && grep -aq "$3" <<<"$said"
}

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
