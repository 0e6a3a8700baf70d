"""The record of a guest's files: their owner, their state and the reason for it. It is ``guest.json`` in the guest's directory,
and the same text on each of its images in a Ceph pool. Each change of state is one write, which is complete or did not happen.
"""
from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any

VERSION = 1


class State(enum.StrEnum):
    """Why the files are where they are."""

    UNKNOWN = "unknown"     # no owner is recorded
    BUILDING = "building"   # the guest is made here, and has never run
    HERE = "here"           # the guest is this host's, running or off
    LEAVING = "leaving"     # its live migration to another host has begun
    ASIDE = "aside"         # a move keeps the files for a revert; see ``aside`` in files.py
    ARRIVING = "arriving"   # a move or an evacuation brings the guest here
    ADOPTED = "adopted"     # an evacuation has found the files here; they have no owner until the guest is built
    REMOVING = "removing"   # the removal has begun. Of files that were set aside: a revert is not possible any more


@dataclasses.dataclass(frozen=True)
class Record:
    """``host``: the owner; empty: there is none. ``move``: the uuid of the move for which the files are kept or received.
    ``source``, of an image: the host that has set it aside, and owns it again when the move is undone.

    ``disk_format`` and ``base`` say how the root disk was made; empty and None: not recorded. A disk with an empty ``base`` has
    no base image. ``post_copy``: the guest runs at its new host; its memory here is incomplete.
    """

    server: str
    host: str = ""
    state: State = State.UNKNOWN
    move: str = ""
    source: str = ""
    disk_format: str = ""
    base: str | None = None
    post_copy: bool = False

    def to_json(self) -> str:
        """The text, without unset fields."""
        unset = {field.name: field.default for field in dataclasses.fields(self) if field.name != "state"}
        said = {name: value for name, value in dataclasses.asdict(self).items() if name not in unset or value != unset[name]}
        return json.dumps({"version": VERSION, **said})

    @classmethod
    def from_json(cls, text: str, server: str) -> Record:
        """The record of this server. Raises ValueError for the record of another server, and for one that this version cannot
        read."""
        said: Any = json.loads(text)
        if not isinstance(said, dict) or said.pop("version", None) != VERSION:
            raise ValueError(f"it is not a record of version {VERSION}")
        try:
            record = cls(**{**said, "state": State(said["state"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is not a record of version {VERSION}: {error}") from error
        if record.host and record.state is State.UNKNOWN:
            raise ValueError("it names a host and no state")
        if record.server != server:
            raise ValueError(f"it is the record of server {record.server!r}")
        return record
