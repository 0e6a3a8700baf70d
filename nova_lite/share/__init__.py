"""Shares of files."""
