"""Weighers say which hosts are best. Third parties add theirs by the entry point nova_lite.scheduler.weights."""
