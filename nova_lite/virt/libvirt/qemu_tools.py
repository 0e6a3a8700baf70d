"""qemu-img and qemu-io with secrets, which go to them by pipes: no command line and no file has any of them."""
from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Mapping

from oslo_log import log

from nova_lite import exception, retry

LOG = log.getLogger(__name__)
SECONDS = 120.0             # for one call that only reads the storage
# milliseconds of work to try a passphrase: ours are random keys, which cannot be guessed
ITERATION = 100
# QEMU measures how fast the machine is; on a busy one its clock of the thread's work now and then does not move meanwhile
_UNMEASURED = "Unable to get accurate CPU usage"
_CREATES = retry.Schedule((0.0,) * 49)      # of some milliseconds each; one in five failed on a machine with two busy cores


def run(secrets: Mapping[str, str], program: str, *arguments: str | os.PathLike[str], keep: Iterable[int] = (),
        seconds: float = 0) -> subprocess.CompletedProcess[str]:
    """With its secrets as QEMU's objects of these names, and the open files ``keep``. A program that takes longer than
    ``seconds`` (0: ``SECONDS``) is ended: VirtDriverError."""
    seconds = seconds or SECONDS
    objects, ends = list[str](), list[int]()
    try:
        for name, value in secrets.items():
            if value:
                read, write = os.pipe()
                ends.append(read)
                os.write(write, value.encode())         # far less than a pipe holds
                os.close(write)
                objects += ["--object", f"secret,id={name},file=/dev/fd/{read}"]
        verb, rest = ([arguments[0]], arguments[1:]) if program == "qemu-img" else ([], arguments)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run([program, *verb, *objects, *rest], stdin=subprocess.DEVNULL, capture_output=True,  # noqa: S603
                                  text=True, errors="replace", check=False, pass_fds=[*ends, *keep], timeout=seconds,
                                  umask=0o077)      # a create that fails removes the file, and the next run makes it again
        raise exception.VirtDriverError(what=program, reason=f"it did not end within {seconds:.0f} s")
    finally:
        for end in ends:
            os.close(end)


def create(secrets: Mapping[str, str], *arguments: str | os.PathLike[str],
           keep: Iterable[int] = ()) -> subprocess.CompletedProcess[str]:
    """qemu-img create of what is encrypted."""
    return retry.poll(
        lambda: run(secrets, "qemu-img", "create", "-q", *arguments, keep=keep), lambda made: _UNMEASURED not in made.stderr,
        _CREATES, before_pause=lambda: LOG.info("qemu-img could not measure the speed of this machine: trying again"))


def failed(what: str, done: subprocess.CompletedProcess[str]) -> exception.VirtDriverError:
    """The error output."""
    return exception.VirtDriverError(what=what, reason=(done.stderr or done.stdout).strip()[-500:])
