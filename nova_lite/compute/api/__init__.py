"""The rules for servers, as other packages call them in-process. No HTTP in here.

Every call that changes state is one transaction, which writes the new task_state of the server and the action. Then it wakes
the worker. When the call returns, the operation cannot be lost.
"""
from __future__ import annotations

from nova_lite.compute.api.changes import Changes
from nova_lite.compute.api.consoles import Consoles
from nova_lite.compute.api.create import Creation
from nova_lite.compute.api.evacuation import Evacuation
from nova_lite.compute.api.events import ExternalEvents
from nova_lite.compute.api.image_cache import ImageCache
from nova_lite.compute.api.interfaces import Interfaces
from nova_lite.compute.api.listing import Listing
from nova_lite.compute.api.live_migrations import LiveMigrations
from nova_lite.compute.api.moves import Moves
from nova_lite.compute.api.operations import Operations
from nova_lite.compute.api.queries import Queries
from nova_lite.compute.api.rebuild import Rebuilds
from nova_lite.compute.api.rescue import Rescues
from nova_lite.compute.api.shares import Shares
from nova_lite.compute.api.shelve import Shelving
from nova_lite.compute.api.volume_images import VolumeImages
from nova_lite.compute.api.volume_snapshots import VolumeSnapshots
from nova_lite.compute.api.volume_swap import VolumeSwap


class ComputeAPI(Creation, Operations, Changes, Consoles, Evacuation, Listing, ExternalEvents, ImageCache, Interfaces,
                 LiveMigrations, Moves, Queries, VolumeImages, Shares, VolumeSnapshots, VolumeSwap,
                 Rebuilds, Rescues, Shelving):
    """All parts in one object; see the modules of this package."""
