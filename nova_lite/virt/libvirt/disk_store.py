"""The ownership of guests' disks, at the place where the disks are.

Disks that are files (``disks.DiskMaker``) belong to the owner of their directory, so the methods here do nothing. Disks in a
pool (``rbd_disks.RbdDisks``) can be reached by all hosts, so each records its owner; no host removes a disk of another host.
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
        """The guest is at this host: make this host the owner of its disks, whoever was."""

    def claim(self, uuid: str) -> None:
        """The guest is about to start here: take the ownership of disks without an owner. Raises for disks of another host."""

    def take(self, uuid: str) -> None:
        """The disks are about to be removed: take the ownership of disks without an owner."""

    def release_ownership(self, uuid: str) -> None:
        """The guest is about to move: remove the owner of this host's disks, so that no host removes them."""

    def give(self, uuid: str, host: str) -> None:
        """Make that host the owner of disks of this host and of disks without an owner."""

    def adopt(self, uuid: str) -> None:
        """Before an evacuated guest is built here: remove the owner of disks that existed before. Disks that were made for it
        stay owned by this host."""

    def adopted(self, uuid: str) -> None:
        """The guest is here: take the ownership of disks without an owner, and note that they existed before."""

    # a move, from the host that the guest leaves ... --------------------------------------------------------------------
    def set_aside(self, uuid: str, move: str) -> None:
        """The guest is off: remember its disks as they are, under the uuid of the move."""

    def restore(self, uuid: str, move: str) -> None:
        """Restore the content of the snapshots; ``forget`` comes after. Raises when the disks belong to another host."""

    def forget(self, uuid: str, move: str) -> None:
        """There is no way back any more. Disks that are another host's by now stay as they are."""

    # ... and from the one that it goes to -------------------------------------------------------------------------------
    def give_back(self, uuid: str, move: str) -> None:
        """The move is undone: return the disks that came with it to the old host, and remove those that were made for it."""

    def abandon(self, uuid: str) -> None:
        """No operation needs the guest any more: remove the disks of this host, and return those that a move has brought here
        to the old host."""
