# shellcheck shell=bash
# Keystone: users, service catalog.

export OS_KEYSTONE_CONFIG_DIR=$ETC/keystone/

configure_keystone() {
    mkdir -p "$ETC/keystone" "$DATA/keystone"/{fernet,credential}
    cat >"$ETC/keystone/keystone.conf" <<EOF
[DEFAULT]
$(conf_log)
max_token_size = 500
$(conf_database keystone)
[token]
provider = fernet
expiration = ${STACK_TOKEN_SECONDS:-14400}
[identity]
password_hash_algorithm = bcrypt
password_hash_rounds = 4
[fernet_tokens]
key_repository = $DATA/keystone/fernet
[credential]
key_repository = $DATA/keystone/credential
[cache]
enabled = True
backend = dogpile.cache.pymemcache
memcache_servers = $STACK_HOST:$P_MEMCACHED
EOF
}

keystone_manage() { "$BIN/keystone-manage" --config-file "$ETC/keystone/keystone.conf" "$@"; }

create_keystone_schema() { keystone_manage db_sync; }

bootstrap_keystone() {
    [ ! -f "$DATA/keystone/done" ] || return 0
    keystone_manage fernet_setup --keystone-user root --keystone-group root
    keystone_manage credential_setup --keystone-user root --keystone-group root
    OS_BOOTSTRAP_PASSWORD=$(password) keystone_manage bootstrap --bootstrap-region-id "$STACK_REGION" \
        --bootstrap-admin-url "$(keystone_url)" --bootstrap-internal-url "$(keystone_url)" --bootstrap-public-url "$(keystone_url)"
    touch "$DATA/keystone/done"
}

start_keystone() {
    start_wsgi keystone keystone.wsgi.api "$P_KEYSTONE"
    wait_until keystone 90 answers "$(keystone_url)"
    seed identity
}
