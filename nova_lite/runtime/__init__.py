"""How a process of nova_lite runs: start, threads, signals, sockets, logs, checks at start."""
