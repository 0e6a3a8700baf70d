"""What the place where guests' disks are has to be told of a guest, beside what is done with its directory.

Disks that are files (``disks.DiskMaker``) are where the directory is, and need not be told anything: so it is here. Disks in a
pool (``rbd_disks.RbdDisks``) are seen by all hosts, so each says itself whose it is; nobody removes what is another host's.
"""
from __future__ import annotations

from collections.abc import Sequence

from nova_lite.virt.libvirt.config import DiskPool
from nova_lite.virt.libvirt.ownership import Standing


class DiskStore:
    """All can be called twice, and raise VirtDriverError."""

    identity = ""       # which pool of which cluster; empty: files. Hosts with the same one have the same disks

    def place(self) -> DiskPool | None:
        """The pool as a domain names it; None: files."""
        return None

    def names(self, uuid: str) -> list[str]:
        """The disks of a guest that are in the pool, by the names that they would have as files."""
        return []

    def remove(self, uuid: str, keep: Sequence[str] = (), server: Standing = Standing()) -> None:
        """All disks that are this host's to remove with a guest of this server, but those with the names ``keep``."""

    # whose they are -----------------------------------------------------------------------------------------------------
    def own(self, uuid: str) -> None:
        """The guest is this host's: so are its disks, whoever had them."""

    def claim(self, uuid: str) -> None:
        """The guest is to start here: what is nobody's becomes this host's. Raises for what is another's."""

    def take(self, uuid: str) -> None:
        """Its disks are about to go: what is nobody's is this host's to remove."""

    def release_ownership(self, uuid: str) -> None:
        """The guest is on its way: what was this host's is nobody's, and nobody removes it."""

    def give(self, uuid: str, host: str) -> None:
        """What was this host's or nobody's is that one's."""

    def adopt(self, uuid: str) -> None:
        """Before an evacuated guest is built here: what was here before is nobody's, what was made for it stays this host's."""

    def adopted(self, uuid: str) -> None:
        """It is here: what was nobody's is this host's, and remembers that it was there before."""

    # a move, from the host that the guest leaves ... --------------------------------------------------------------------
    def set_aside(self, uuid: str, move: str) -> None:
        """The guest is off: remember its disks as they are, under the uuid of the move."""

    def restore(self, uuid: str, move: str) -> None:
        """Make them again what they were then; ``forget`` comes after. Raises when they have become another host's."""

    def forget(self, uuid: str, move: str) -> None:
        """There is no way back any more. Disks that are another host's by now stay as they are."""

    # ... and from the one that it goes to -------------------------------------------------------------------------------
    def give_back(self, uuid: str, move: str) -> None:
        """The move is undone: what came with it is the old host's again, what was made for it goes."""

    def abandon(self, uuid: str) -> None:
        """Nobody came back for it: remove what is this host's, but what a move has brought here is the old host's again."""
