"""The embedded cloud: the drivers that stand in for Keystone, Glance, Neutron and Cinder, and (``api``) their small APIs."""
