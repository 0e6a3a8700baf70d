"""Images in a directory."""
