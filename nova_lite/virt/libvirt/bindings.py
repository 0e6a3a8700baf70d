"""The guests of a host that are bound to its CPUs and NUMA nodes: one small file in each such guest's directory.

The files are the only record. A new daemon reads them again. A guest that a move has set aside keeps its place until the move
is confirmed. The removal of a guest's directory frees its place.
"""
from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Sequence

from nova_lite import durable, exception
from nova_lite.objects import hardware
from nova_lite.objects.hardware import placement
from nova_lite.objects.hardware.placement import BoundCell, HostCell
from nova_lite.objects.instance import Instance
from nova_lite.virt.libvirt.files import BINDING, GuestDirectory


class Bindings:
    """Of one host; hosts that share their directories each have their own."""

    def __init__(self, root: pathlib.Path, host: str) -> None:
        self._root, self._host = root, host
        self._lock = threading.Lock()

    def in_use(self, cells: Sequence[HostCell], but: str = "") -> list[HostCell]:
        """The nodes with what guests are bound to, the guest ``but`` left out."""
        bound = []
        for path in self._root.glob(f"*/{BINDING}"):
            if path.parent.name != but:
                bound += self._read(path)
        return placement.in_use(cells, bound)

    def bind(self, instance: Instance, files: GuestDirectory, cells: Sequence[HostCell]) -> tuple[BoundCell, ...]:
        """Find a place for a guest that is about to be defined, and write it; () for a guest that is not bound. Raises
        BuildFailed without a place."""
        demand = hardware.demand(instance.flavor, instance.image)
        path = files.binding
        with self._lock:
            if demand is None:
                path.unlink(missing_ok=True)
                return ()
            found = placement.place(demand, self.in_use(cells, but=instance.uuid))
            if found is None:
                raise exception.BuildFailed(instance_id=instance.uuid, reason="no NUMA nodes of the host have the CPUs, "
                                                                              "memory or huge pages that it is to be bound to")
            files.make()
            with durable.written_whole(path) as part:
                part.write_text(json.dumps({"host": self._host, "cells": [cell.to_primitive() for cell in found]}))
        return found

    def _read(self, path: pathlib.Path) -> list[BoundCell]:
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:       # its guest was removed just now
            return []
        return [BoundCell.from_primitive(cell) for cell in found["cells"]] if found["host"] == self._host else []
