"""Volumes as sparse files."""
