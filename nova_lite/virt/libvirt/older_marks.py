"""Records of guests whose files an older version has made: it kept marks, which are small files in the guest's directory, and
two notes on each image in a pool. A directory gets its record when the daemon starts, an image when its record is next written.
"""
from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

from oslo_log import log
from oslo_utils import uuidutils

from nova_lite import durable
from nova_lite.virt.libvirt.files import ASIDE, GuestDirectory
from nova_lite.virt.libvirt.guest_record import Record, State

LOG = log.getLogger(__name__)
NOTES = _OWNER_NOTE, _ASIDE_NOTE = "nova_lite.owner", "nova_lite.aside"
_OWNER, _MOVED_TO, _MOVED_FROM, _POST_COPY = "owner", "moved-to", "moved-from", "post-copy"
_MARKS = (_OWNER, _MOVED_TO, _MOVED_FROM, _POST_COPY)
_NOBODY = "-"               # in place of a host; in place of a base image: the disk has none
_SHARED = "shared"          # beside a host: an evacuation to it has found the files
_DROPPED = "dropped "       # before the uuid of a move: there is no way back any more
_TO = {"new": State.BUILDING, "removed": State.REMOVING}    # in place of the uuid of a move


def convert(root: pathlib.Path) -> None:
    """Give each directory below ``root`` that has marks its record, whichever host made them, and remove the marks. Hosts that
    share ``root`` may do it at the same time. Raises OSError."""
    for path in sorted(root.glob("*")):
        if uuidutils.is_uuid_like(path.name.removesuffix(ASIDE)) and (marks := _read(path)):
            files = GuestDirectory(root, path.name)
            if not files.record_file.exists():
                record = of_marks(path.name, marks)
                try:
                    is_written = durable.write_new(files.record_file, record.to_json())
                except FileNotFoundError:       # another host has removed the directory, or given it another name
                    continue
                if is_written:
                    LOG.info("Its directory %s has a record in place of marks: %s", path.name, record,
                             extra={"instance_uuid": record.server})
            for mark in _MARKS:
                (path / mark).unlink(missing_ok=True)


def _read(path: pathlib.Path) -> dict[str, list[str]]:
    """The lines of the marks in a directory, as many as a mark can have."""
    found = {}
    for mark in _MARKS:
        try:
            found[mark] = [line.strip() for line in (*(path / mark).read_text().split("\n"), "", "", "")][:4]
        except (FileNotFoundError, NotADirectoryError):
            continue
    return found


def of_marks(name: str, marks: Mapping[str, list[str]]) -> Record:
    """The record of a directory with this name and these marks."""
    owner, word, disk_format, base = marks.get(_OWNER, [""] * 4)
    record = Record(name.removesuffix(ASIDE), disk_format=disk_format, post_copy=_POST_COPY in marks,
                    base=None if not base else "" if base == _NOBODY else base)
    to_host, to = marks.get(_MOVED_TO, [""] * 4)[:2]
    from_host, from_move = marks.get(_MOVED_FROM, [""] * 4)[:2]
    move = from_move.removeprefix(_DROPPED)
    if name.endswith(ASIDE):
        state = State.REMOVING if from_move.startswith(_DROPPED) else State.ASIDE
        return dataclasses.replace(record, host=from_host, state=state, move=move) if from_host else record
    if owner == _NOBODY:
        return dataclasses.replace(record, state=State.ADOPTED)
    if to_host and to_host == (owner or to_host):
        state = _TO.get(to, State.LEAVING if owner and not to else State.ARRIVING)
        return dataclasses.replace(record, host=to_host, state=state, move="" if to in _TO else to)
    if from_host and from_host == (owner or from_host):
        return dataclasses.replace(record, host=from_host, state=State.ASIDE, move=move)
    state = State.ADOPTED if word == _SHARED else State.HERE if owner else State.UNKNOWN
    return dataclasses.replace(record, host=owner, state=state)


def of_notes(server: str, notes: Mapping[str, str]) -> Record:
    """The record of an image with these notes."""
    host, _, word = notes.get(_OWNER_NOTE, "").partition(" ")
    source, _, move = notes.get(_ASIDE_NOTE, "").partition(" ")
    if host == _NOBODY:
        return Record(server, "", State.ADOPTED, move, source)
    state = State.ADOPTED if word == _SHARED else State.HERE if host else State.UNKNOWN
    return Record(server, host, state, move, source)
