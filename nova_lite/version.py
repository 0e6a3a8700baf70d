"""The version of this installation."""
from importlib import metadata

try:
    VERSION = metadata.version("nova-lite")
except metadata.PackageNotFoundError:  # run from a checkout that was never installed
    VERSION = "0.0.0"
