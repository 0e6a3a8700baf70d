"""What users' tools do with a cloud: one tour per client. `make client-tours` runs them on an embedded cloud of fake hosts,
``OS_CLIENT_CONFIG_FILE=... make client-tours`` on the cloud of `make stack`."""
