"""Clusters of RabbitMQ, MariaDB and PostgreSQL whose nodes fail: ``devstack/local/cluster.sh``, by ``make cluster-test``."""
