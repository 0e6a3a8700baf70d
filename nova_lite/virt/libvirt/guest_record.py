"""What a host has of a guest, whose it is, and why: one record (``guest.json``) in the guest's directory, and the same on each
of its images in a Ceph pool. Each change of state is one write, which is whole or did not happen.
"""
from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any

VERSION = 1


class State(enum.StrEnum):
    """Why the files are where they are."""

    UNKNOWN = "unknown"     # nobody has written down whose they are
    BUILDING = "building"   # the guest is made here, and has never run
    HERE = "here"           # the guest is this host's, running or off
    LEAVING = "leaving"     # its live migration to another host has begun
    ASIDE = "aside"         # a move keeps it for the way back. A directory with the guest's name is not yet, or no more, aside
    ARRIVING = "arriving"   # a move or an evacuation brings it here
    ADOPTED = "adopted"     # an evacuation has found it here, on shared storage. It is nobody's until the guest has been built
    REMOVING = "removing"   # its removal has begun. Of what was set aside: there is no way back any more


@dataclasses.dataclass(frozen=True)
class Record:
    """``host``: whose it is; empty: nobody's. ``move``: the uuid of the move that it is kept or received for. ``source``, of an
    image: the host that has set it aside, and has it again when the move is undone.

    ``disk_format`` and ``base`` say how the root disk was made; empty and None: nobody has written that down. A disk with an
    empty ``base`` stands on no base image. ``post_copy``: the guest goes on elsewhere; its memory here is worth nothing alone.
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
        """Without what is not set."""
        unset = {field.name: field.default for field in dataclasses.fields(self) if field.name != "state"}
        said = {name: value for name, value in dataclasses.asdict(self).items() if name not in unset or value != unset[name]}
        return json.dumps({"version": VERSION, **said})

    @classmethod
    def from_json(cls, text: str, server: str) -> Record:
        """That of this server. Raises ValueError for another one's, and for what this version cannot read."""
        said: Any = json.loads(text)
        if not isinstance(said, dict) or said.pop("version", None) != VERSION:
            raise ValueError(f"it is no record of version {VERSION}")
        try:
            record = cls(**{**said, "state": State(said["state"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is no record of version {VERSION}: {error}") from error
        if record.host and record.state is State.UNKNOWN:
            raise ValueError("it names a host and no state")
        if record.server != server:
            raise ValueError(f"it is the record of server {record.server!r}")
        return record
