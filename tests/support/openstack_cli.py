"""The stock ``openstack`` command in a virtual environment of its own, as a user has it: not beside the service."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "nova-lite" / "openstackclient"


def install() -> str:
    """Path of the command; installs python-openstackclient at the first call."""
    command = CACHE / "bin" / "openstack"
    if not command.exists():
        subprocess.run([sys.executable, "-m", "venv", str(CACHE)], check=True)
        subprocess.run([str(CACHE / "bin" / "pip"), "install", "-q", "python-openstackclient>=7"], check=True)
    return str(command)
