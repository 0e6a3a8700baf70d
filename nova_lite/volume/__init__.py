"""Block storage: the interface, and the driver of Cinder."""
