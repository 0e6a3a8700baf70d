# shellcheck shell=bash
# MariaDB, memcached and RabbitMQ, private to this stack.

DATABASES=(keystone glance neutron cinder)

sql() { mariadb --no-defaults -uroot -S "$RUN/mysql.sock" "$@"; }

start_mariadb() {
    if [ ! -d "$DATA/mysql/mysql" ]; then
        mariadb-install-db --no-defaults --user=root --datadir="$DATA/mysql" --skip-test-db
    fi
    # nothing here outlives the machine: no flush at each commit
    start mysql mariadbd --no-defaults --user=root --datadir="$DATA/mysql" --socket="$RUN/mysql.sock" \
        --bind-address="$STACK_HOST" --port="$P_MYSQL" --pid-file="$RUN/mysql.own" --max-connections=1000 \
        --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --skip-log-bin --innodb-buffer-pool-size=128M \
        --performance-schema=off --character-set-server=utf8mb4 --skip-name-resolve
    wait_until mysql 60 port_open "$P_MYSQL"
    # by standard input: the command line is everybody's to read
    sql <<EOF
CREATE USER IF NOT EXISTS stack@'%' IDENTIFIED BY '$(password)';
GRANT ALL ON *.* TO stack@'%';
EOF
}

start_memcached() {
    start memcached memcached -u root -l "$STACK_HOST" -p "$P_MEMCACHED" -m 64
    wait_until memcached 20 port_open "$P_MEMCACHED"
}

# The environment of the broker's programs; for a subshell.
rabbit_environment() {
    export HOME=$DATA/rabbitmq ERL_EPMD_PORT=$P_EPMD ERL_EPMD_ADDRESS=$STACK_HOST
    export RABBITMQ_NODENAME=stack$STACK_PORT_BASE@localhost RABBITMQ_CONFIG_FILE=$ETC/rabbitmq.conf
    export RABBITMQ_MNESIA_BASE=$DATA/rabbitmq/mnesia RABBITMQ_LOG_BASE=$LOG RABBITMQ_LOGS=- RABBITMQ_DIST_PORT=$P_AMQP_DIST
    export RABBITMQ_ENABLED_PLUGINS_FILE=$ETC/rabbitmq_plugins RABBITMQ_CONF_ENV_FILE=/dev/null
    export RABBITMQ_PID_FILE=$RUN/rabbitmq.own
    export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none +S 2:2"
}

start_rabbitmq() {
    mkdir -p "$DATA/rabbitmq"
    echo '[].' >"$ETC/rabbitmq_plugins"
    cat >"$ETC/rabbitmq.conf" <<EOF
listeners.tcp.default = $STACK_HOST:$P_AMQP
default_user = stack
default_pass = $(password)
loopback_users = none
disk_free_limit.absolute = 100MB
vm_memory_high_watermark.absolute = 1GB
log.console = true
log.console.level = warning
log.file = false
EOF
    rabbit_environment
    start epmd "$(command -v epmd)"
    # not /usr/sbin/rabbitmq-server: that one changes the user
    start rabbitmq /usr/lib/rabbitmq/bin/rabbitmq-server
    wait_until rabbitmq 90 port_open "$P_AMQP"
}

# The tables of all neighbours. Their migrations take about a minute, so the result is kept for the next stack of these versions.
create_schemas() {
    local kept name
    [ ! -f "$DATA/schemas.done" ] || return 0
    kept=$STACK_CACHE/schemas-$(pins).sql
    if [ -s "$kept" ]; then
        sql <"$kept"
    else
        for name in "${DATABASES[@]}"; do sql -e "CREATE DATABASE IF NOT EXISTS $name CHARACTER SET utf8mb4"; done
        create_keystone_schema >"$LOG/schema-keystone.log" 2>&1 & local keystone=$!
        create_neutron_schema >"$LOG/schema-neutron.log" 2>&1 & local neutron=$!
        wait $keystone || { tail "$LOG/schema-keystone.log"; return 1; }
        create_glance_schema >"$LOG/schema-glance.log" 2>&1 || { tail "$LOG/schema-glance.log"; return 1; }
        create_cinder_schema >"$LOG/schema-cinder.log" 2>&1 || { tail "$LOG/schema-cinder.log"; return 1; }
        wait $neutron || { tail "$LOG/schema-neutron.log"; return 1; }
        mariadb-dump --no-defaults -uroot -S "$RUN/mysql.sock" --databases "${DATABASES[@]}" >"$kept.$$"
        mv "$kept.$$" "$kept"
    fi
    touch "$DATA/schemas.done"
}
