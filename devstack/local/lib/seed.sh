# shellcheck shell=bash
# Plugins for the neighbours, first contents, and the files by which others find this stack.

# plugins/ with the metadata that makes Neutron find the mechanism driver by its name
install_plugins() {
    local metadata=$STACK_DIR/plugins/nova_lite_stack-1.0.dist-info
    mkdir -p "$metadata"
    cp "$STACK_HERE"/plugins/*.py "$STACK_DIR/plugins/"
    printf 'Metadata-Version: 2.1\nName: nova_lite_stack\nVersion: 1.0\n' >"$metadata/METADATA"
    printf '[neutron.ml2.mechanism_drivers]\nstackbind = stack_ml2:BindDriver\n' >"$metadata/entry_points.txt"
}

seed() { STACK_PASSWORD=$(password) "$BIN/python" "$STACK_HERE/seed.py" "$@"; }

write_clouds() {
    local user cloud
    (
        umask 077
        {
            echo "clouds:"
            for user in admin demo alt_demo; do
                cloud=nova-lite-${user//_/-}
                [ $user != admin ] || cloud=nova-lite
                cat <<EOF
  $cloud:
    auth:
      auth_url: $(keystone_url)
      username: $user
      password: $(password)
      project_name: $user
      user_domain_name: Default
      project_domain_name: Default
    region_name: $STACK_REGION
    identity_api_version: 3
EOF
            done
        } >"$STACK_DIR/clouds.yaml"
    )
}

# What tests/support/neighbours.py reads. Last of all: its presence says that the stack is complete.
write_facts() {
    (
        umask 077
        cat >"$STACK_DIR/stack.json" <<EOF
{"kind": "$STACK_KIND", "node": "$STACK_NODE", "region": "$STACK_REGION", "password": "$(password)",
 "keystone": "$(keystone_url)", "memcached": "$STACK_HOST:$P_MEMCACHED", "host": "$STACK_HOST",
 "broker": "$(broker_url)", "database": "$(database_url '{name}')",
 "ports": {"mysql": $P_MYSQL, "amqp": $P_AMQP, "keystone": $P_KEYSTONE, "glance": $P_GLANCE, "neutron": $P_NEUTRON,
           "cinder": $P_CINDER, "compute": $P_COMPUTE, "metadata": $P_METADATA},
 "rabbitmq": {"node": "stack$STACK_PORT_BASE@localhost", "epmd": $P_EPMD, "home": "$DATA/rabbitmq"}}
EOF
    )
}
