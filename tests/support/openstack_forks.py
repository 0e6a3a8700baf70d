"""Runs ``openstack`` commands, each in a fork of a process that has imported everything: what a command takes is mostly that.

    python openstack_forks.py          (in the virtual environment of the client)

Reads one JSON line {"argv": [...], "env": {...}} per command from stdin and answers one: {"status", "out", "err"}.
"""
from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import tempfile


def preload() -> None:
    """Import the client and all of its commands."""
    import openstack  # noqa: F401
    import openstackclient.shell  # noqa: F401

    for group in ("compute.v2", "volume.v3", "network.v2", "image.v2", "identity.v3", "common", "cli.base"):
        for point in importlib.metadata.entry_points(group=f"openstack.{group}"):
            point.load()


def run(request: dict) -> dict:
    """One command in a process of its own."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)       # whoever asks a question gets no answer
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os.environ.update(request["env"])
            sys.argv = ["openstack", *request["argv"]]
            _main(request["argv"])
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return {"status": status, "out": out.read().decode(), "err": err.read().decode()}


def _main(argv: list[str]) -> None:
    """Ends the process."""
    status = 1
    try:
        from openstackclient.shell import main

        status = main(argv) or 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    preload()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=answers, flush=True)
