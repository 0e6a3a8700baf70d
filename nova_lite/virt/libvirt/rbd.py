"""One pool of a Ceph cluster, by the programs ``rbd``, ``ceph`` and ``qemu-img``.

The user is an id (``[libvirt] rbd_user``), whose key these programs find through ceph.conf: no secret is in a command line. An
image exists when the pool lists it: the old name of an interrupted rename may still open the image.
"""
from __future__ import annotations

import json
import operator
import pathlib
import subprocess
from typing import Any

from nova_lite import exception, retry
from nova_lite.virt.driver import Checker, wanted
from nova_lite.virt.libvirt import copying, images

QUERY_SECONDS = 60.0            # for calls that copy nothing: else a call would wait for ever while the cluster is away
CLUSTER_SECONDS = 10.0          # for questions about the cluster: a host's signs of life wait for the answer
WHILE_BUSY = retry.every(2.0, timeout=60.0)     # Ceph notices half a minute later that a killed QEMU has closed an image
_NOT_THERE, _BUSY, _EXISTS = 2, 16, 17       # exit statuses of rbd: errnos


class Pool:
    """All raise VirtDriverError."""

    def __init__(self, name: str, conf_file: str = "", user: str = "", clock: retry.Clock = retry.SYSTEM) -> None:
        self.name, self._conf_file, self._user, self._clock = name, conf_file, user, clock
        self._who = [*(["--conf", conf_file] if conf_file else []), *(["--id", user] if user else [])]

    # the cluster --------------------------------------------------------------------------------------------------------
    def monitors(self) -> tuple[str, list[str]]:
        """(fsid, addresses with ports) of the cluster."""
        found = self._ceph("mon", "dump")
        return str(found["fsid"]), [vector["addr"] for mon in found["mons"] for vector in mon["public_addrs"]["addrvec"]]

    def space(self) -> tuple[int, int]:
        """(bytes in all, bytes free) as guests could use them."""
        stats = next((p["stats"] for p in self._ceph("df")["pools"] if p["name"] == self.name), None)
        if stats is None:
            raise exception.VirtDriverError(what="ceph df", reason=f"there is no pool {self.name}")
        free = int(stats["max_avail"])
        return free + int(stats.get("stored", stats["bytes_used"])), free

    # images -------------------------------------------------------------------------------------------------------------
    def images(self, prefix: str) -> list[str]:
        """The names of the images that begin so."""
        return sorted(name for name in self._query("ls", self.name) if name.startswith(prefix))

    def size(self, image: str) -> int:
        """Bytes."""
        return int(self._query("info", self._spec(image))["size"])

    def create(self, image: str, size: int) -> None:
        """An empty one of ``size`` bytes."""
        self._rbd("create", "--size", f"{size}B", self._spec(image))

    def write(self, image: str, source: pathlib.Path, disk_format: str, is_empty: bool) -> None:
        """Fill an image, which is at least as large, with the content of a file. An ``is_empty`` image needs no zeros
        written."""
        self._copy(wanted, "-n", *(["--target-is-zero"] if is_empty else []), "-f", disk_format, "--target-image-opts", source,
                   self._options(image))

    def read(self, image: str, snapshot: str, target: pathlib.Path, disk_format: str, check: Checker) -> None:
        """Copy a snapshot of an image to a file. Raises what ``check`` raises, too."""
        self._copy(check, "--image-opts", "-O", disk_format, self._options(image, snapshot), target)

    def resize(self, image: str, size: int) -> None:
        """To ``size`` bytes, less or more."""
        self._rbd("resize", "--no-progress", "--allow-shrink", "--size", f"{size}B", self._spec(image), lasts=True)

    def rename(self, old: str, new: str) -> None:
        """No image is called ``new``."""
        def rename() -> None:
            self._rbd("rename", self._spec(old), self._spec(new))

        try:
            rename()
        except _Failed as error:
            if error.status != _EXISTS or new in self.images(new):
                raise
            # a rename that was killed has written the object of the new name, and not the list of the pool
            _run("rados", self._who, "--pool", self.name, "rm", f"rbd_id.{new}", seconds=QUERY_SECONDS)
            rename()

    def remove(self, image: str) -> None:
        """With its snapshots; one of which a killed process has made only half, too. Waits for a process that was killed
        over it."""
        try:
            if self.snapshots(image):
                self._rbd("snap", "purge", "--no-progress", self._spec(image), lasts=True)
        except _Failed as error:
            if error.status != _NOT_THERE:
                raise
        retry.on_error(lambda: self._rbd("rm", "--no-progress", self._spec(image), lasts=True),
                       lambda error: isinstance(error, _Failed) and error.status == _BUSY, WHILE_BUSY, self._clock)

    def wait_until_closed(self, image: str) -> None:
        """Wait until no process has the image open for writing. Raises VirtDriverError with the address of one that has."""
        watchers = retry.poll(lambda: self._query("status", self._spec(image)).get("watchers"), operator.not_, WHILE_BUSY,
                              self._clock)
        if watchers:
            where = ", ".join(str(watcher["address"]) for watcher in watchers)
            raise exception.VirtDriverError(what=f"Taking over image {image}", reason=f"it is still in use by {where}")

    # snapshots ----------------------------------------------------------------------------------------------------------
    def snapshots(self, image: str) -> list[str]:
        """The names of its snapshots."""
        return [found["name"] for found in self._query("snap", "ls", self._spec(image))]

    def make_snapshot(self, image: str, name: str) -> None:
        """Make a snapshot, in place of one with this name."""
        self.remove_snapshot(image, name)
        self._rbd("snap", "create", "--no-progress", self._spec(image, name))

    def remove_snapshot(self, image: str, name: str) -> None:
        """Remove a snapshot; one that does not exist is no error."""
        if name in self.snapshots(image):
            self._rbd("snap", "rm", "--no-progress", self._spec(image, name), lasts=True)

    def roll_back(self, image: str, name: str) -> None:
        """Restore the content and the size of the snapshot. After an interruption the image is a mixture, and this must be run
        again."""
        self._rbd("snap", "rollback", "--no-progress", self._spec(image, name), lasts=True)

    # what is written on an image ----------------------------------------------------------------------------------------
    def note(self, image: str, key: str) -> str:
        """Empty where there is none."""
        return str(self.notes(image).get(key, ""))

    def notes(self, image: str) -> dict[str, str]:
        """All of them; none of an image that is only half there."""
        try:
            said = self._rbd("image-meta", "list", self._spec(image), "--format", "json")
        except _Failed as error:
            if error.status != _NOT_THERE:
                raise
            return {}
        return dict(json.loads(said)) if said.strip() else {}       # of an image without any, rbd says nothing

    def write_note(self, image: str, key: str, value: str) -> None:
        """In place of an older one; empty: remove it."""
        if value:
            self._rbd("image-meta", "set", self._spec(image), key, value)
        elif self.note(image, key):
            self._rbd("image-meta", "remove", self._spec(image), key)

    # --------------------------------------------------------------------------------------------------------------------
    def _spec(self, image: str, snapshot: str = "") -> str:
        return f"{self.name}/{image}" + (f"@{snapshot}" if snapshot else "")

    def _options(self, image: str, snapshot: str = "") -> str:
        """As QEMU's programs take it."""
        said = {"pool": self.name, "image": image, "snapshot": snapshot, "conf": self._conf_file, "user": self._user}
        return "driver=rbd" + "".join(f",{key}={images.option(value)}" for key, value in said.items() if value)

    def _query(self, *arguments: str) -> Any:
        return json.loads(self._rbd(*arguments, "--format", "json"))

    def _ceph(self, *arguments: str) -> Any:
        return json.loads(_run("ceph", self._who, *arguments, "--format", "json", seconds=CLUSTER_SECONDS))

    def _rbd(self, *arguments: str, lasts: bool = False) -> str:
        return _run("rbd", self._who, *arguments, seconds=None if lasts else QUERY_SECONDS)

    @staticmethod
    def _copy(check: Checker, *arguments: str | pathlib.Path) -> None:
        try:
            copying.run(check, "qemu-img", "convert", *arguments)
        except OSError as error:
            raise exception.VirtDriverError(what="Copying to or from Ceph", reason=str(error)) from error


class _Failed(exception.VirtDriverError):
    """``status`` is the program's."""

    status = 0


def _run(program: str, who: list[str], *arguments: str, seconds: float | None = None) -> str:
    what = " ".join([program, *(a for a in arguments if not a.startswith("-"))][:4])
    try:
        done = subprocess.run([program, *who, *arguments], capture_output=True, text=True, check=False,  # noqa: S603
                              stdin=subprocess.DEVNULL, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise exception.VirtDriverError(what=what, reason=f"Ceph did not answer within {seconds:.0f} s") from error
    except FileNotFoundError as error:
        raise exception.VirtDriverError(what=what, reason=f"{program} is not installed (Debian: ceph-common)") from error
    if done.returncode:
        failed = _Failed(what=what, reason=f"it ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        failed.status = done.returncode
        raise failed
    return done.stdout

