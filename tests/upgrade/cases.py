"""What the old cloud is in the middle of when it is upgraded."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.walk import GONE

NEWEST = "2.104"        # microversion
Given = dict[str, str]      # ids of the cloud, by name


@dataclass(frozen=True)
class Case:
    """A verb that is held at ``at`` (see ``held_compute.py``), or that only the API has heard of.

    ``since``: how the server is before: the status, or "" for one that is being built. ``ends``: how it must be at last.
    ``fails``: points at which it fails before. ``ask``: the action's name and argument, or DELETE; ``more``: for the build.
    ``needs_host``: the request waits for an answer of the host.
    """

    name: str
    since: str
    ask: Callable[[Given], tuple[str, Any]]
    at: str | None
    ends: str
    fails: tuple[str, ...] = ()
    more: frozenset[str] = field(default=frozenset())
    needs_host: bool = False

    @property
    def undone(self) -> bool:
        """Whether its action ends in an error, as it failed before the upgrade."""
        return bool(self.fails)


def _action(name: str, argument: Any = None) -> Callable[[Given], tuple[str, Any]]:
    return lambda given: (name, argument(given) if callable(argument) else argument)


def _cases(verb: str, since: str, ask: Callable[[Given], tuple[str, Any]], ends: str, *points: str, **more: Any) -> list[Case]:
    """The verb held at each of the points, and once asked for while nobody hears it."""
    held = [Case(f"{verb}.{point.replace(':', '.')}", since, ask, point, ends, **more) for point in points]
    return [*held, Case(f"{verb}.asked", since, ask, None, ends, **more)]


_RESIZE = _action("resize", lambda given: {"flavorRef": given["large"]})
_REBUILD = _action("rebuild", lambda given: {"imageRef": given["image"]})
_MIGRATE = _action("migrate", {"host": None})
_LIVE = _action("os-migrateLive", {"host": None, "block_migration": "auto"})
_BUILD = _action("")
DELETE = "DELETE"
ATTACH_VOLUME, DETACH_VOLUME, ATTACH_NIC, DETACH_NIC = "attach volume", "detach volume", "attach nic", "detach nic"
VOLUME = frozenset({"volume"})

CASES: list[Case] = [
    *_cases("build", "", _BUILD, "ACTIVE", "keys", "task:spawning", "spawn"),
    *_cases("build-volume", "", _BUILD, "ACTIVE", "connect_volume", more=VOLUME),
    *_cases("resize", "ACTIVE", _RESIZE, "VERIFY_RESIZE", "check_resize", "task:resize_migrating", "set_aside", "receive_guest",
            "task:resize_migrated", "task:resize_finish", "finish_move"),
    *_cases("resize-volume", "SHUTOFF", _RESIZE, "VERIFY_RESIZE", "receive_guest", "connect_volume", "finish_move",
            more=VOLUME),
    Case("resize-undone.bring_back", "ACTIVE", _RESIZE, "bring_back", "ACTIVE", fails=("finish_move",)),
    *_cases("migrate", "SHUTOFF", _MIGRATE, "VERIFY_RESIZE", "receive_guest", "task:resize_finish"),
    *_cases("confirm", "VERIFY_RESIZE", _action("confirmResize"), "ACTIVE", "drop_aside"),
    *_cases("revert", "VERIFY_RESIZE", _action("revertResize"), "ACTIVE", "power_off", "bring_back"),
    *_cases("live", "ACTIVE", _LIVE, "ACTIVE", "live:prepare", "pre_live_migration", "live:copy", "live:finish",
            "post_live_migration", "live_migration"),
    *_cases("live-paused", "PAUSED", _LIVE, "PAUSED", "live:finish"),
    Case("live-undone.undo", "ACTIVE", _LIVE, "live:undo", "ACTIVE", fails=("live_migration",)),
    Case("live-undone.settle", "ACTIVE", _LIVE, "live:settle", "ACTIVE", fails=("live_migration",)),
    *_cases("shelve", "ACTIVE", _action("shelve"), "SHELVED", "snapshot", "task:shelving_image_uploading"),
    *_cases("offload", "SHELVED", _action("shelveOffload"), "SHELVED_OFFLOADED", "destroy"),
    *_cases("unshelve", "SHELVED_OFFLOADED", _action("unshelve"), "ACTIVE", "spawn"),
    *_cases("unshelve-here", "SHELVED", _action("unshelve"), "ACTIVE", "power_on"),
    *_cases("image", "ACTIVE", _action("createImage", {"name": "an image", "metadata": {}}), "ACTIVE", "snapshot",
            "task:image_uploading"),
    *_cases("backup", "ACTIVE", _action("createBackup", {"name": "a backup", "backup_type": "daily", "rotation": 1}), "ACTIVE",
            "snapshot"),
    *_cases("rebuild", "ACTIVE", _REBUILD, "ACTIVE", "check_spawn", "clear", "spawn"),
    *_cases("rebuild-off", "SHUTOFF", _REBUILD, "SHUTOFF", "clear"),
    *_cases("rescue", "ACTIVE", _action("rescue", {}), "RESCUE", "rescue"),
    *_cases("unrescue", "RESCUE", _action("unrescue"), "ACTIVE", "unrescue"),
    *_cases("stop", "ACTIVE", _action("os-stop"), "SHUTOFF", "power_off"),
    *_cases("start", "SHUTOFF", _action("os-start"), "ACTIVE", "power_on"),
    *_cases("reboot", "ACTIVE", _action("reboot", {"type": "SOFT"}), "ACTIVE", "reboot"),
    *_cases("reboot-hard", "ACTIVE", _action("reboot", {"type": "HARD"}), "ACTIVE", "reboot"),
    *_cases("pause", "ACTIVE", _action("pause"), "PAUSED", "pause"),
    *_cases("unpause", "PAUSED", _action("unpause"), "ACTIVE", "unpause"),
    *_cases("suspend", "ACTIVE", _action("suspend"), "SUSPENDED", "suspend"),
    *_cases("resume", "SUSPENDED", _action("resume"), "ACTIVE", "resume"),
    *_cases("password", "ACTIVE", _action("changePassword", {"adminPass": "secret-before-the-upgrade"}), "ACTIVE",
            "set_admin_password", needs_host=True),
    *_cases("soft-delete", "ACTIVE", _action(DELETE), "SOFT_DELETED", "power_off"),
    *_cases("restore", "SOFT_DELETED", _action("restore"), "ACTIVE", "power_on"),
    *_cases("delete", "ACTIVE", _action("forceDelete"), GONE, "destroy"),
    *_cases("delete-resized", "VERIFY_RESIZE", _action("forceDelete"), GONE, "destroy"),
    *_cases("attach-volume", "ACTIVE", _action(ATTACH_VOLUME), "ACTIVE", "connect_volume", "attach_volume"),
    *_cases("detach-volume", "ACTIVE", _action(DETACH_VOLUME), "ACTIVE", "detach_volume", more=frozenset({"data"})),
    *_cases("attach-nic", "ACTIVE", _action(ATTACH_NIC), "ACTIVE", "attach_interface", needs_host=True),
    *_cases("detach-nic", "ACTIVE", _action(DETACH_NIC), "ACTIVE", "detach_interface"),
    # since microversion 2.95 what is evacuated stays off
    *_cases("evacuate", "ACTIVE", _action("evacuate", {}), "SHUTOFF", "task:rebuild_spawning", "spawn",
            more=frozenset({"doomed"})),
]
LEADS_TO: dict[str, tuple[str, ...]] = {
    "ACTIVE": (), "SHUTOFF": ("os-stop",), "PAUSED": ("pause",), "SUSPENDED": ("suspend",), "RESCUE": ("rescue",),
    "VERIFY_RESIZE": ("resize",), "SHELVED": ("shelve",), "SHELVED_OFFLOADED": ("shelve", "shelveOffload"),
    "SOFT_DELETED": (DELETE,)}
"""How an ACTIVE server gets to each status."""
