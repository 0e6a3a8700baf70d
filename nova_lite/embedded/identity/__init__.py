"""Users and tokens in a file."""
