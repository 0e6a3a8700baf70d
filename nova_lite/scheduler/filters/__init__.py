"""Filters say which hosts can take a request. Third parties add theirs by the entry point nova_lite.scheduler.filters."""
