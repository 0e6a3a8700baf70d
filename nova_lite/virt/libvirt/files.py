"""Where the files of guests are, and writing one so that it is whole or not there."""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence

from oslo_config import cfg

PART = ".part"
BASES = "_base"        # the directory of base images, among those of guests
ASIDE = "_resize"      # after the uuid: the guest moves, and this is what it can come back to


class GuestDirectory:
    """``<state_path>/instances/<uuid>``: all that one guest has on disk."""

    def __init__(self, root: pathlib.Path, uuid: str) -> None:
        self.path = root / uuid
        self.disk = self.path / "disk"
        self.ephemeral = self.path / "disk.eph0"
        self.swap = self.path / "disk.swap"
        self.config_drive = self.path / "disk.config"
        self.rescue_disk = self.path / "disk.rescue"
        self.rescue_config_drive = self.path / "disk.config.rescue"
        self.snapshot = self.path / "snapshot.part"
        self.console_log = self.path / "console.log"
        self.moved_from = self.path / "moved-from"
        self.moved_to = self.path / "moved-to"
        self.owner = self.path / "owner"    # where hosts share the directory: the host whose guest it is, once it has moved

    def make(self) -> None:
        """Create it. Others may pass through (QEMU may run as another user), but see no names."""
        self.path.mkdir(mode=0o711, parents=True, exist_ok=True)

    def remove(self, keep: Sequence[pathlib.Path] = ()) -> None:
        """Remove it with all that is in it; gone already is no error. ``keep`` are files that stay, with the directory."""
        with contextlib.suppress(FileNotFoundError):
            if not any(path.exists() for path in keep):
                shutil.rmtree(self.path)
                return
            for path in self.path.iterdir():
                if path not in keep:
                    path.unlink()


def instances_root(conf: cfg.ConfigOpts) -> pathlib.Path:
    """The directory of all guests of this host."""
    return pathlib.Path(conf.state_path).absolute() / "instances"


@contextlib.contextmanager
def written_whole(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """The name of a temporary file beside ``path`` that becomes ``path`` when the block succeeds, and vanishes when not.

    What a killed process left under the temporary name is thrown away first.
    """
    part = path.with_name(path.name + PART)
    part.unlink(missing_ok=True)
    try:
        yield part
        os.rename(part, path)
    finally:
        part.unlink(missing_ok=True)
