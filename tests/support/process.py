"""Child processes of a test: started with a log file, killed with all that they started."""
from __future__ import annotations

import itertools
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

BIN = pathlib.Path(sys.executable).parent


# below the ports that Linux gives to outgoing connections (ip_local_port_range starts at 32768): a port that the kernel names
# for bind(0) is often given to a connection before the service of the test listens on it
_PORTS = itertools.cycle(random.sample(range(16384, 32768), 16384))


def free_port() -> int:
    """A TCP port on which nobody listens. A process gets each port once."""
    for port in _PORTS:
        with socket.socket() as s:
            try:
                s.bind(("", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


def wait_for(what: str, condition: Callable[[], object], timeout: float = 60, interval: float = 0.1) -> object:
    """The first true value of ``condition()``; AssertionError naming ``what`` after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain for {what}")
        time.sleep(interval)


class Process:
    """One child in its own process group."""

    def __init__(self, name: str, command: list[str], directory: pathlib.Path, env: dict[str, str] | None = None) -> None:
        self.name, self.command, self.directory = name, [str(c) for c in command], directory
        self.env = {**os.environ, **(env or {})}
        self.log = directory / f"{name}.out"
        self.popen: subprocess.Popen[bytes] | None = None

    def start(self) -> Process:
        with open(self.log, "ab") as stream:
            self.popen = subprocess.Popen(self.command, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL,
                                          cwd=self.directory, env=self.env, start_new_session=True)
        return self

    @property
    def pid(self) -> int:
        assert self.popen is not None
        return self.popen.pid

    def alive(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def send(self, sig: int) -> None:
        """Send a signal to the whole group, if it lives."""
        if self.alive():
            os.killpg(self.pid, sig)

    def kill(self, sig: int = signal.SIGKILL, timeout: float = 60) -> int:
        """Send a signal to the whole group and wait for the end; answers the exit code."""
        assert self.popen is not None
        self.send(sig)
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()
            raise AssertionError(f"{self.name} did not stop within {timeout} s of signal {sig}:\n{self.tail()}") from None

    def tail(self, lines: int = 40) -> str:
        """The end of the log, for a failure message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""
