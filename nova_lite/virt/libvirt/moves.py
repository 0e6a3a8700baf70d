"""The files of a guest that moves to another host, or that is made anew on its own one with other sizes.

On the host that it leaves, its directory is set aside as ``<uuid>_resize``, until the move is confirmed; there the disks are
served from. On the host that it goes to they are copied into ``<uuid>``. The record in each says whose doing it is, and of
which move: so that what a killed process left is found again, that no move takes the files of an older one for its own, and
that hosts that share their directories do not take each other's for left behind.
"""
from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence

from oslo_config import cfg
from oslo_log import log
from oslo_utils import uuidutils

from nova_lite import durable, exception
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.guest_moves import DiskOffer
from nova_lite.objects.instance import Instance
from nova_lite.runtime import concurrency
from nova_lite.virt.driver import Checker, Fetcher, wanted
from nova_lite.virt.libvirt import copying, images
from nova_lite.virt.libvirt.disk_offer import BASE, DiskServer, key_of, pull
from nova_lite.virt.libvirt.disks import DiskMaker
from nova_lite.virt.libvirt.files import (
    ASIDE,
    DISK_FORMATS,
    POOLED,
    RECORD,
    GuestDirectory,
    finish_removals,
    instances_root,
)
from nova_lite.virt.libvirt.guest_record import Record, State
from nova_lite.virt.libvirt.ownership import Rule, Standing, rule

LOG = log.getLogger(__name__)


class Moves:
    """For one host. Domains are the driver's; here are files only. Each step can be run twice."""

    def __init__(self, conf: cfg.ConfigOpts, host: str, disks: DiskMaker) -> None:
        self._root, self._host, self._disks = instances_root(conf), host, disks
        self._address = conf.libvirt.migration_address or conf.my_ip

    def check(self, instance: Instance, flavor: Flavor) -> None:
        """Raise ResizeError for disks that would have to shrink."""
        shrinks = flavor.root_gb < instance.flavor.root_gb and not instance.is_volume_backed
        if shrinks or flavor.ephemeral_gb < instance.flavor.ephemeral_gb:
            raise exception.ResizeError(reason="Unable to resize disk down.")

    # the host that the guest leaves ---------------------------------------------------------------------------------
    def set_aside(self, instance: Instance, move: str) -> None:
        """The guest is off: rename its directory. Files that an older move had set aside are removed, unless they are the only
        copy."""
        files, aside = self._files(instance.uuid), self._aside(instance.uuid)
        if self.has_aside(instance, move):
            return
        if files.path.exists():
            if aside.path.exists():
                self._drop(instance.uuid)
            files.note(state=State.ASIDE, host=self._host, move=move)
            self._disks.set_aside(instance.uuid, move)
            self._server(files).stop()      # by its path it would not be found any more
            os.rename(files.path, aside.path)
        elif aside.is_of(self._host):
            older = aside.record
            self._restore(older)
            self._disks.set_aside(instance.uuid, move)
            aside.note(state=State.ASIDE, move=move)
            self._disks.forget(instance.uuid, older.move)

    def bring_back(self, instance: Instance, move: str | None) -> None:
        """The inverse; files that the move has made here meanwhile are removed. ``move`` None: of any move, also when the
        removal of its files was interrupted."""
        files, aside = self._files(instance.uuid), self._aside(instance.uuid)
        if aside.is_of(self._host) if move is None else self.has_aside(instance, move):
            self._server(aside).stop()
            self._restore(aside.record)
            self.remove(instance.uuid)
            os.rename(aside.path, files.path)
        self._is_here(files)

    def _restore(self, record: Record) -> None:
        """Restore the images in a pool, unless the removal of their snapshots has begun."""
        if record.state is State.REMOVING:
            self._disks.claim(record.server)
        else:
            self._disks.restore(record.server, record.move)

    def _is_here(self, files: GuestDirectory) -> None:
        """Files that were not set aside after all, that have returned, or that a failed removal has left belong to the
        guest."""
        record = files.record
        if record.host == self._host and record.state in (State.ASIDE, State.REMOVING):
            if record.move:
                self._disks.forget(record.server, record.move)
            files.note(state=State.HERE, move="")

    def return_if_alone(self, instance: Instance) -> None:
        """A move that was given up in the middle, and the guest is to start here: what was set aside is all that there is. So
        is what a removal that failed has left."""
        files = self._files(instance.uuid)
        if not files.path.exists():
            self.bring_back(instance, None)
        else:
            self._is_here(files)

    def drop_aside(self, instance_uuid: str) -> None:
        """What was set aside here is not needed any more."""
        if self._aside(instance_uuid).is_of(self._host):
            self._drop(instance_uuid)

    def _drop(self, instance_uuid: str) -> None:
        aside = self._aside(instance_uuid)
        self._server(aside).stop()
        if self._disks.identity:
            aside.note(state=State.REMOVING)        # from here on there is no way back, and who comes next finds how far it is
            self._disks.forget(instance_uuid, aside.record.move)
        concurrency.native(aside.remove)

    def offer(self, instance: Instance) -> DiskOffer:
        """Serve what was set aside. Raises OSError."""
        aside = self._aside(instance.uuid)
        if not aside.is_of(self._host):
            raise exception.VirtDriverError(what="Offering a guest", reason=f"{self._host} has set nothing of it aside")
        names = [p.name for p in aside.movable if p.exists()]
        offer = self._server(aside).offer(names, self._disks.format_of(aside), aside.base)
        return dataclasses.replace(offer, disks=[*offer.disks, *self._disks.names(instance.uuid)], pool=self._disks.identity)

    def offers(self, instance_uuid: str) -> bool:
        """Whether the disks are served, or files of that are left."""
        aside = self._aside(instance_uuid)
        return aside.is_of(self._host) and self._server(aside).has_files

    def withdraw(self, instance: Instance) -> None:
        """Serve it no more."""
        aside = self._aside(instance.uuid)
        if aside.is_of(self._host):
            self._server(aside).stop()

    # the host that it goes to ---------------------------------------------------------------------------------------
    def receive(self, instance: Instance, offer: DiskOffer | None, fetch: Fetcher, move: str,
                check: Checker = wanted) -> None:
        """Copy the disks, as far as this move has not done so; ``offer`` None: from what was set aside on this very host.
        Raises ResizeError, VirtDriverError, OSError or what ``check`` raises."""
        files, aside = self._files(instance.uuid), self._aside(instance.uuid)
        if offer is not None:
            self._check_format(files, offer)
        record = files.record
        if (record.state, record.host, record.move) != (State.ARRIVING, self._host, move):
            self._server(files).stop()
            files.begin(Record(instance.uuid, self._host, State.ARRIVING, move))
        if not files.disk_format:
            told = offer.disk_format if offer is not None and not offer.pool else ""
            files.note_format(told or self._disks.format_of(aside))
        if offer is None or _is_shared(aside, offer):
            files.note(base=aside.base)
            for path in aside.movable:
                if path.exists() and not (target := files.path / path.name).exists():
                    with durable.written_whole(target) as part:
                        copying.run(check, "cp", "--sparse=always", "--reflink=auto", "--preserve=mode,ownership", path, part)
            return
        with key_of(offer, files.path) as keys:
            for name in offer.disks:
                if offer.pool and name in POOLED:
                    continue        # it stays where it is
                target = files.path / name
                if name not in (p.name for p in files.movable):
                    raise exception.VirtDriverError(what="Receiving a guest", reason=f"the other host offers a file {name!r}")
                if not target.exists():
                    with durable.written_whole(target) as part:
                        pull(offer, name, keys, part, check)
                        if target == files.disk:
                            files.note_base(self._rebase(instance, part, offer, move, fetch,
                                                         lambda base: pull(offer, BASE, keys, base, check)))

    def _rebase(self, instance: Instance, disk: pathlib.Path, offer: DiskOffer, move: str, fetch: Fetcher,
                pull_base: Callable[[pathlib.Path], None]) -> str:
        """The root disk stands on this host's copy of its base image; the name of that copy. Which images this host has in its
        cache is no business of the other host: of these it takes the one that the server's record names, and no other. A server
        that was unshelved stands on another one, of which the other host sends its copy; so it does when the Image service has
        it no more."""
        if offer.disk_format != images.OVERLAY:
            return ""
        header = images.qcow2_header(disk)
        if header is None or header.external_data or header.backing_file != bool(offer.base):
            raise exception.DriverRefusal(what="Receiving a guest", reason="its disk differs from its description")
        if not offer.base:
            return ""
        image = instance.image if instance.image is not None and instance.image.id == offer.base else None
        base, base_format = self._disks.base_for_move(move, offer.base_format, image, fetch, pull_base)
        self._disks.rebase(instance, self._files(instance.uuid), disk, base, base_format)
        return base.name

    def _check_format(self, files: GuestDirectory, offer: DiskOffer) -> None:
        """By the description of the other host, before anything is copied: all bytes of a raw disk are written by the guest.
        Raises ResizeError."""
        if offer.pool != self._disks.identity and not POOLED.isdisjoint(offer.disks):
            raise exception.ResizeError(reason=f"its disks are {_where(offer.pool)}, those of {self._host} are "
                                               f"{_where(self._disks.identity)} ([libvirt] images_type)",
                                        public="Resize error: the disks of the new host are in another place")
        if not offer.pool and files.disk.name in offer.disks and offer.disk_format not in DISK_FORMATS:
            raise exception.ResizeError(reason=f"its disk is of the format {offer.disk_format!r}, which {self._host} does not "
                                               "have", public="Resize error: the new host does not have the disk's format")

    def fit(self, instance: Instance, fetch: Fetcher) -> None:
        """Give the disks the sizes of the server's (new) flavor; none becomes smaller except swap, which is made again."""
        self._disks.fit(instance, self._files(instance.uuid), fetch)

    def settled(self, instance: Instance) -> None:
        """The guest is defined here, and its files are this host's."""
        self._disks.own(instance.uuid)
        self._files(instance.uuid).note(state=State.HERE, host=self._host, move="")

    def drop_received(self, instance: Instance, move: str = "") -> None:
        """What a move has made here goes; what was set aside here stays, and so does what is another host's."""
        self._disks.give_back(instance.uuid, move)
        if self.may_remove(instance, has_guest=False):
            self.remove(instance.uuid)

    # the host that it is built on -----------------------------------------------------------------------------------
    def spawns(self, instance: Instance) -> None:
        """Make the directory of a guest that is to be this host's. Its record says that it is being built until the guest runs
        for the first time, so that what a killed build leaves is found. What is left of a killed removal is no part of it."""
        files = self._files(instance.uuid)
        record = files.record
        if record.state is State.REMOVING and record.host == self._host:
            self.drop_left_behind(instance.uuid)
        if not files.path.exists():
            files.begin(Record(instance.uuid, self._host, State.BUILDING))
        elif record.host == self._host and record.state in (State.BUILDING, State.ARRIVING):
            return
        elif not rule(record, self._host).takes:       # files that an evacuation has found have no owner until it has ended
            is_new = record.state in (State.BUILDING, State.LEAVING)       # nothing of it counts before the guest runs again
            files.note(state=State.BUILDING if is_new else State.HERE, host=self._host, move="", post_copy=False)

    def spawned(self, instance: Instance) -> None:
        """It runs."""
        files = self._files(instance.uuid)
        if files.is_of(self._host) and files.record.state is State.BUILDING:
            files.note(state=State.HERE)

    def claim(self, instance_uuid: str) -> None:
        """The guest is about to start here: take the ownership of files without an owner. Raises VirtDriverError for disks of
        another host."""
        self._disks.claim(instance_uuid)
        self._take_files(instance_uuid)

    def take(self, instance_uuid: str) -> None:
        """The server is this host's, or deleted, and its disks are about to be removed: take the ownership, also of files
        without an owner that a failed evacuation has left."""
        self._disks.take(instance_uuid)
        self._take_files(instance_uuid)

    def _take_files(self, instance_uuid: str) -> None:
        files = self._files(instance_uuid)
        if self._rule(files).takes:
            files.note(state=State.HERE, host=self._host)

    def may_remove(self, instance: Instance, has_guest: bool) -> bool:
        """Whether the files of a guest are this host's to remove with it."""
        return self._rule(self._files(instance.uuid)).removes(Standing.of(instance, self._host, has_guest))

    def removes(self, instance: Instance) -> None:
        """Begin the removal of the files that ``may_remove`` allows: the domain is removed first, and images in a pool before
        the directory. After a kill the rest must be found, and must not be used by a guest of the same server."""
        files = self._files(instance.uuid)
        if Standing.of(instance, self._host).is_unwanted:
            self._disks.take(instance.uuid)
        if files.path.exists() and self.may_remove(instance, has_guest=True):
            files.note(state=State.REMOVING, host=self._host, move="")

    def remove(self, instance_uuid: str, keep: Sequence[pathlib.Path] = ()) -> None:
        """The directory of a guest, but for the files ``keep``. First ends what serves of it: the config drive, when the server
        was on its way to another host as it ran. Nothing else would find that process again."""
        files = self._files(instance_uuid)
        self._server(files).stop()
        concurrency.native(files.remove, keep)

    # abandoned files ------------------------------------------------------------------------------------------------
    def left_behind(self) -> set[str]:
        """The servers of which something is here that a move has set aside, or that a move or a build has not finished."""
        found = set()
        for path in self._root.glob(f"*/{RECORD}"):
            name = path.parent.name
            if uuidutils.is_uuid_like(name.removesuffix(ASIDE)) and self._is_left(GuestDirectory(self._root, name)):
                found.add(name.removesuffix(ASIDE))
        return found

    def _is_left(self, files: GuestDirectory) -> bool:
        try:
            return self._rule(files).is_left
        except OSError as error:        # UnreadableRecord is one
            LOG.error("The owner of a directory is not known: %s", error)
            return False

    def drop_left_behind(self, instance_uuid: str) -> None:
        """Remove that."""
        files, aside = self._files(instance_uuid), self._aside(instance_uuid)
        is_received, is_aside = self._rule(files).drops, aside.is_of(self._host)
        if is_received or is_aside and not files.path.exists():     # else a guest of this host has them
            self._disks.abandon(instance_uuid)
        if is_received:
            self.remove(instance_uuid)
        self.drop_aside(instance_uuid)

    def tidy(self) -> None:
        """Finish the removals over which a process died."""
        concurrency.native(finish_removals, self._root)

    # ---------------------------------------------------------------------------------------------------------------
    def _files(self, uuid: str) -> GuestDirectory:
        return GuestDirectory(self._root, uuid)

    def _aside(self, uuid: str) -> GuestDirectory:
        return GuestDirectory(self._root, uuid + ASIDE)

    def has_aside(self, instance: Instance, move: str) -> bool:
        """Whether this host has set the guest aside for this move, and its removal has not begun."""
        record = self._aside(instance.uuid).record
        return record.host == self._host and record.state is State.ASIDE and record.move in (move, "")

    def _server(self, files: GuestDirectory) -> DiskServer:
        return DiskServer(files.path, self._address)

    def _rule(self, files: GuestDirectory) -> Rule:
        return rule(files.record, self._host)


def _is_shared(aside: GuestDirectory, offer: DiskOffer) -> bool:
    """Whether the other host's directory is also this one's: then its key can be read here."""
    with contextlib.suppress(OSError):
        return (aside.path / "offer.tls" / "keys.psk").read_text().strip().endswith(f":{offer.key}")
    return False


def _where(pool: str) -> str:
    return pool or "files"
