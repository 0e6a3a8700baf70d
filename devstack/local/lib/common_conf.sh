# shellcheck shell=bash
# Pieces of configuration files that several services share.

conf_log() {
    echo "debug = ${STACK_DEBUG:-False}"
    echo "use_stderr = True"
}

conf_database() { # DATABASE
    cat <<EOF
[database]
connection = $(database_url "$1")
max_pool_size = 10
max_overflow = 40
EOF
}

# Who service USER is, as keystoneauth reads it.
conf_credentials() { # USER
    cat <<EOF
auth_type = password
auth_url = $(keystone_url)
username = $1
password = $(password)
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = $STACK_REGION
EOF
}

conf_authtoken() { # USER
    cat <<EOF
[keystone_authtoken]
www_authenticate_uri = $(keystone_url)
memcached_servers = $STACK_HOST:$P_MEMCACHED
service_token_roles = service
service_token_roles_required = True
$(conf_credentials "$1")
EOF
}

conf_no_notifications() {
    echo "[oslo_messaging_notifications]"
    echo "driver = noop"
}
