"""The release from which the upgrade goes: its tree out of git, with an environment of its own, made once."""
from __future__ import annotations

import fcntl
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
CACHE = pathlib.Path(os.environ.get("NOVA_LITE_CACHE") or pathlib.Path.home() / ".cache" / "nova_lite") / "upgrade"
FROM = os.environ.get("NOVA_LITE_UPGRADE_FROM", "7e3bb42")


def python(revision: str = FROM) -> pathlib.Path:
    """The interpreter whose nova_lite is that of ``revision``; made where it is missing, which takes some minutes."""
    commit = _git("rev-parse", "--verify", f"{revision}^{{commit}}").strip()
    tree = CACHE / commit[:12]
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{commit[:12]}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (tree / ".made").exists():
            _make(commit, tree)
    return tree / ".venv" / "bin" / "python"


def _make(commit: str, tree: pathlib.Path) -> None:
    tree.mkdir(exist_ok=True)
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x"], cwd=tree, input=archive, check=True)
    subprocess.run([sys.executable, "-m", "venv", tree / ".venv"], check=True)
    # the system packages are those of the tree under test, which were there before
    subprocess.run([tree / ".venv" / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-e", ".[libvirt,mysql]"],
                   cwd=tree, check=True)
    (tree / ".made").touch()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout
