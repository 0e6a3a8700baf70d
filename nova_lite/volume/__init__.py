"""Block storage: the interface, Cinder's side of it and the embedded one."""
