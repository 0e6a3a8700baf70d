# shellcheck shell=bash
# The nodes of RabbitMQ, MariaDB and PostgreSQL of cluster.sh. Each has a namespace with an address of its own, so that one node
# can be cut off from all others and from the services.

CLUSTER_BRIDGE=nl-cluster CLUSTER_ADDRESS=192.168.98.1
RABBITS=(rabbit-1 rabbit-2 rabbit-3) MARIAS=(maria-1 maria-2 maria-3) POSTGRESES=(postgres-1 postgres-2)
NODES=("${RABBITS[@]}" "${MARIAS[@]}" "${POSTGRESES[@]}")
POSTGRES_BIN=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)

is_node() { case " ${NODES[*]} " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

node_address() { # NODE
    case $1 in
        rabbit-*) echo "192.168.98.1${1#*-}" ;;
        maria-*) echo "192.168.98.2${1#*-}" ;;
        postgres-*) echo "192.168.98.3${1#*-}" ;;
    esac
}

# The addresses of these nodes with the port, separated by commas. PREFIX comes before each address.
addresses() { # PREFIX PORT NODE...
    local prefix=$1 port=$2 node found=
    shift 2
    for node; do found+=${found:+,}$prefix$(node_address "$node")${port:+:$port}; done
    echo "$found"
}

in_node() { # NODE COMMAND...
    local node=$1
    shift
    ip netns exec "nl-$node" "$@"
}

plug_nodes() {
    local node
    ip link show "$CLUSTER_BRIDGE" >/dev/null 2>&1 || ip link add "$CLUSTER_BRIDGE" type bridge
    ip address replace "$CLUSTER_ADDRESS/24" dev "$CLUSTER_BRIDGE"
    ip link set "$CLUSTER_BRIDGE" up
    for node in "${NODES[@]}"; do
        [ ! -e "/run/netns/nl-$node" ] || continue
        ip netns add "nl-$node"
        ip -n "nl-$node" link set lo up
        ip link add "nl-$node" type veth peer name cluster netns "nl-$node"
        ip link set "nl-$node" master "$CLUSTER_BRIDGE" up
        ip -n "nl-$node" address add "$(node_address "$node")/24" dev cluster
        ip -n "nl-$node" link set cluster up
    done
}

state_of() { # NODE
    local pid
    if ! alive "$1"; then
        echo down
        return
    fi
    read -r pid _ <"$RUN/$1.pid"
    case $(ip -o link show "nl-$1" | grep -o 'state [A-Z]*')/$(awk '/^State:/ { print $2 }' "/proc/$pid/status") in
        *DOWN/*) echo "cut off" ;;
        */T) echo hung ;;
        *) echo up ;;
    esac
}

send_signal() { # SIGNAL NODE
    local pid
    alive "$2" || die "$2 does not run"
    read -r pid _ <"$RUN/$2.pid"
    kill "-$1" -- "-$pid"
}

start_node() { "start_${1%-*}" "$1"; }

# stop_nodes: the first of MariaDB is the last to end, so that it may begin the cluster the next time.
stop_nodes() {
    local node pids
    for node in "${RABBITS[@]}" postgres-2 postgres-1 maria-3 maria-2 maria-1; do
        if alive "$node"; then send_signal CONT "$node"; fi
        stop "$node" 30
        stop "epmd-$node"
        [ -e "/run/netns/nl-$node" ] || continue
        pids=$(ip netns pids "nl-$node")
        # shellcheck disable=SC2086  # one word per process
        [ -z "$pids" ] || kill -KILL $pids
        ip netns delete "nl-$node"
        ip link delete "nl-$node" 2>/dev/null || true      # it goes with the namespace, a moment later
    done
    ip link delete "$CLUSTER_BRIDGE" 2>/dev/null || true
}

# RabbitMQ ---------------------------------------------------------------------------------------------------------------------

# For a subshell.
node_environment() { # NODE
    RABBITMQ_NODENAME=rabbit@$(node_address "$1")
    export RABBITMQ_NODENAME RABBITMQ_USE_LONGNAME=true HOME=$DATA/$1
    export RABBITMQ_CONFIG_FILE=$ETC/rabbitmq.conf RABBITMQ_ENABLED_PLUGINS_FILE=$ETC/rabbitmq_plugins RABBITMQ_CONF_ENV_FILE=/dev/null
    export RABBITMQ_MNESIA_BASE=$DATA/$1/mnesia RABBITMQ_LOG_BASE=$LOG RABBITMQ_LOGS=- RABBITMQ_PID_FILE=$RUN/$1.own
    # a node that hangs holds up whoever declares a queue, until the others give it up: after 60 s by default
    export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+sbwt none +sbwtdcpu none +sbwtdio none +S 2:2 -kernel net_ticktime 10"
}

start_rabbit() { # NODE
    mkdir -p "$DATA/$1"
    [ -s "$DATA/$1/.erlang.cookie" ] || (umask 377 && password >"$DATA/$1/.erlang.cookie")
    (
        node_environment "$1"
        start "epmd-$1" ip netns exec "nl-$1" epmd
        start "$1" ip netns exec "nl-$1" /usr/lib/rabbitmq/bin/rabbitmq-server
    )
    wait_until "$1" 120 node_listens "$1" 5672
}

# The connection comes from the namespace, whose cable may be unplugged.
node_listens() { in_node "$1" bash -c "exec 3<>/dev/tcp/$(node_address "$1")/$2" 2>/dev/null; }

start_all_rabbit() {
    local node number=0
    echo '[].' >"$ETC/rabbitmq_plugins"
    {
        cat <<EOF
listeners.tcp.default = 5672
default_user = stack
default_pass = $(password)
loopback_users = none
disk_free_limit.absolute = 100MB
vm_memory_high_watermark.absolute = 1GB
log.console = true
log.console.level = warning
log.file = false
cluster_partition_handling = pause_minority
cluster_formation.peer_discovery_backend = classic_config
EOF
        for node in "${RABBITS[@]}"; do
            number=$((number + 1))
            echo "cluster_formation.classic_config.nodes.$number = rabbit@$(node_address "$node")"
        done
    } >"$ETC/rabbitmq.conf"
    for node in "${RABBITS[@]}"; do start_rabbit "$node"; done      # one after the other: each joins those that are there
}

# MariaDB ----------------------------------------------------------------------------------------------------------------------

node_sql() { # NODE ARGUMENT...
    local node=$1
    shift
    mariadb --no-defaults -uroot -S "$DATA/$node/sock" "$@"
}

maria_is_ready() { node_sql "$1" -NBe "SHOW STATUS LIKE 'wsrep_ready'" 2>/dev/null | grep -q ON; }

maria_is_member() { # NODE
    local other living=0
    for other in "${MARIAS[@]}"; do if alive "$other"; then living=$((living + 1)); fi; done
    maria_is_ready "$1" && node_sql "$1" -NBe "SHOW STATUS LIKE 'wsrep_cluster_size'" 2>/dev/null | grep -qw "$living"
}

# After a fault of a MariaDB node. A fault of another node before that would leave the cluster without a majority.
wait_for_member() { # NODE
    case $1 in maria-*) wait_until "$1" 120 maria_is_member "$1" ;; esac
}

# A node joins the cluster. Where no other node runs, maria-1 begins it: stop_nodes ends maria-1 last.
start_maria() { # NODE
    local node=$1 other first=()
    mkdir -p "$DATA/$node" && chown mysql: "$DATA/$node"
    if [ "$node" = maria-1 ]; then
        first=(--wsrep-new-cluster)
        for other in maria-2 maria-3; do if alive "$other"; then first=(); fi; done
    fi
    if [ ${#first[@]} != 0 ]; then
        [ -d "$DATA/$node/mysql" ] ||
            mariadb-install-db --no-defaults --user=mysql --datadir="$DATA/$node" --skip-test-db \
                --auth-root-authentication-method=normal >/dev/null
        [ ! -f "$DATA/$node/grastate.dat" ] || sed -i 's/^safe_to_bootstrap: 0/safe_to_bootstrap: 1/' "$DATA/$node/grastate.dat"
    fi
    # nothing here outlives the machine: no flush at each commit
    start "$node" ip netns exec "nl-$node" mariadbd --no-defaults --user=mysql --datadir="$DATA/$node" --socket="$DATA/$node/sock" \
        --bind-address=0.0.0.0 --port=3306 --pid-file="$DATA/$node/pid" --max-connections=500 --skip-name-resolve \
        --character-set-server=utf8mb4 --innodb-buffer-pool-size=128M --performance-schema=off \
        --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --binlog-format=ROW --innodb-autoinc-lock-mode=2 \
        --wsrep-on=ON --wsrep-provider=/usr/lib/galera/libgalera_smm.so --wsrep-cluster-name=nova_lite \
        "--wsrep-cluster-address=gcomm://$(addresses "" "" "${MARIAS[@]}")" --wsrep-node-name="$node" \
        --wsrep-node-address="$(node_address "$node")" --wsrep-sst-method=rsync --wsrep-provider-options=gcache.size=64M "${first[@]}"
    wait_until "$node" 120 maria_is_ready "$node"
}

start_all_maria() {
    local node
    for node in "${MARIAS[@]}"; do start_maria "$node"; done
    # by standard input: the command line is everybody's to read
    node_sql maria-1 <<EOF
CREATE USER IF NOT EXISTS stack@'%' IDENTIFIED BY '$(password)';
GRANT ALL ON *.* TO stack@'%';
CREATE USER IF NOT EXISTS haproxy@'$CLUSTER_ADDRESS';
EOF
}

# Only a node that is ready gets connections, and a node that is not any more loses those that it has.
start_haproxy() {
    local node
    cat >"$STACK_DIR/bin/galera-is-ready" <<'EOF'
#!/bin/sh
# HAProxy's arguments: its own address and port, those of the node
mariadb --no-defaults -uhaproxy -h "$3" -P "$4" --connect-timeout=2 -NBe "SHOW STATUS LIKE 'wsrep_ready'" | grep -q ON
EOF
    chmod 755 "$STACK_DIR/bin/galera-is-ready"
    {
        cat <<EOF
global
    external-check
    insecure-fork-wanted
defaults
    mode tcp
    timeout connect 2s
    timeout check 2s
    timeout client 1h
    timeout server 1h
    option redispatch
    retries 2
listen mariadb
    bind $STACK_HOST:$P_MYSQL
    balance roundrobin
    option external-check
    external-check path "$PATH"
    external-check command $STACK_DIR/bin/galera-is-ready
    default-server inter 1s fall 2 rise 2 on-marked-down shutdown-sessions
EOF
        for node in "${MARIAS[@]}"; do echo "    server $node $(node_address "$node"):3306 check"; done
        cat <<EOF
listen compute
    mode http
    bind $STACK_HOST:$P_COMPUTE
    balance roundrobin
    option httpchk GET /healthcheck
    default-server inter 1s fall 2 rise 1
    server api-1 $STACK_HOST:$P_API_1 check
    server api-2 $STACK_HOST:$P_API_2 check
EOF
    } >"$ETC/haproxy.cfg"
    start haproxy haproxy -f "$ETC/haproxy.cfg" -db
    wait_until haproxy 30 port_open "$P_MYSQL"
}

# PostgreSQL -------------------------------------------------------------------------------------------------------------------

as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }

postgres_sql() { # NODE STATEMENT
    (cd / && as_postgres psql -h "$DATA/$1" -U postgres -d postgres -v ON_ERROR_STOP=1 -qAtc "$2")
}

postgres_answers() { "$POSTGRES_BIN/pg_isready" -q -h "$DATA/$1"; }

is_primary() { alive "$1" && [ "$(postgres_sql "$1" "SELECT pg_is_in_recovery()" 2>/dev/null)" = f ]; }

# A node whose peer is the primary begins anew as its standby. A primary waits with each commit until its standby has it.
start_postgres() { # NODE
    local node=$1 peer=postgres-$((3 - ${1#*-}))
    [ "$POSTGRES_BIN" ] || { echo "there is no PostgreSQL" && return 1; }
    if alive "$node"; then return 0; fi
    mkdir -p "$DATA/$node" && chown postgres: "$DATA/$node"
    if is_primary "$peer"; then
        rm -rf "$DATA/$node/data"
        (cd / && PGPASSWORD=$(password) as_postgres "$POSTGRES_BIN/pg_basebackup" -D "$DATA/$node/data" -R -X stream -c fast \
            -d "host=$(node_address "$peer") user=stack application_name=$node")
    elif [ ! -d "$DATA/$node/data" ]; then
        (cd / && as_postgres "$POSTGRES_BIN/initdb" -D "$DATA/$node/data" -U postgres -A peer -N >/dev/null)
        echo "host all,replication all 192.168.98.0/24 scram-sha-256" >>"$DATA/$node/data/pg_hba.conf"
    fi
    # nothing here outlives the machine
    (cd / && start "$node" ip netns exec "nl-$node" setpriv --reuid=postgres --regid=postgres --clear-groups \
        "$POSTGRES_BIN/postgres" -D "$DATA/$node/data" -c "listen_addresses=*" -c "unix_socket_directories=$DATA/$node" \
        -c max_connections=300 -c fsync=off)
    wait_until "$node" 60 postgres_answers "$node"
}

start_all_postgres() {
    start_postgres postgres-1
    postgres_sql postgres-1 "SELECT 1 FROM pg_roles WHERE rolname = 'stack'" | grep -q 1 ||
        (cd / && as_postgres psql -h "$DATA/postgres-1" -U postgres -d postgres -q <<EOF
CREATE ROLE stack LOGIN SUPERUSER PASSWORD '$(password)';
EOF
        )
    start_postgres postgres-2
    # what was committed is on the standby, too: nothing is lost with the primary
    postgres_sql postgres-1 "ALTER SYSTEM SET synchronous_standby_names = '\"postgres-2\"'"
    postgres_sql postgres-1 "SELECT pg_reload_conf()" >/dev/null
}

promote_standby() {
    local node=postgres-2
    if is_primary postgres-2; then node=postgres-1; fi
    postgres_sql "$node" "SELECT pg_promote(true, 30)" >/dev/null
    # the former primary is no standby
    postgres_sql "$node" "ALTER SYSTEM RESET synchronous_standby_names"
    postgres_sql "$node" "SELECT pg_reload_conf()" >/dev/null
}
