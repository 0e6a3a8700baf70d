"""Networks in the database: Linux bridges, DHCP and packet filters on each host."""
