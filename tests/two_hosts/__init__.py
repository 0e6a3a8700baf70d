"""Real guests on two hosts with Open vSwitch: the cloud of ``devstack/local/stack.sh --hosts 2``, by ``make two-hosts``."""
