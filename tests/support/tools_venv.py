"""Programs of others that tests run: each in a virtual environment of its own, as a user has it, not beside ours."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "nova-lite"


def install(environment: str, command: str, *requirements: str) -> str:
    """Path of ``command`` in the virtual environment of that name; makes it at the first call."""
    directory = CACHE / environment
    path = directory / "bin" / command
    if not path.exists():
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
        subprocess.run([str(directory / "bin" / "pip"), "install", "-q", *requirements], check=True)
    return str(path)
