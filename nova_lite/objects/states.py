"""The states of a server, and the ``status`` that clients see for them. What leads from one to the next: ``operations/``."""
from __future__ import annotations

from nova_lite.objects.instance import SHELVED_IMAGE, Instance

# vm_state
ACTIVE, BUILDING, PAUSED, SUSPENDED, STOPPED = "active", "building", "paused", "suspended", "stopped"
RESCUED, RESIZED, SOFT_DELETED, DELETED, ERROR = "rescued", "resized", "soft-delete", "deleted", "error"
SHELVED, SHELVED_OFFLOADED = "shelved", "shelved_offloaded"
VM_STATES = (ACTIVE, BUILDING, PAUSED, SUSPENDED, STOPPED, RESCUED, RESIZED, SOFT_DELETED, DELETED, ERROR, SHELVED,
             SHELVED_OFFLOADED)

# task_state; None is idle
SCHEDULING, NETWORKING, BLOCK_DEVICE_MAPPING, SPAWNING = "scheduling", "networking", "block_device_mapping", "spawning"
DELETING, POWERING_OFF, POWERING_ON = "deleting", "powering-off", "powering-on"
REBOOTING, REBOOTING_HARD = "rebooting", "rebooting_hard"
REBOOT_STARTED, REBOOT_STARTED_HARD = "reboot_started", "reboot_started_hard"
MIGRATING, UPDATING_PASSWORD = "migrating", "updating_password"
RESIZE_PREP, RESIZE_MIGRATING, RESIZE_MIGRATED, RESIZE_FINISH = ("resize_prep", "resize_migrating", "resize_migrated",
                                                                 "resize_finish")
RESIZE_REVERTING, RESIZE_CONFIRMING = "resize_reverting", "resize_confirming"
PAUSING, UNPAUSING, SUSPENDING, RESUMING = "pausing", "unpausing", "suspending", "resuming"
IMAGE_SNAPSHOT_PENDING, IMAGE_SNAPSHOT, IMAGE_BACKUP = "image_snapshot_pending", "image_snapshot", "image_backup"
IMAGE_PENDING_UPLOAD, IMAGE_UPLOADING = "image_pending_upload", "image_uploading"
RESCUING, UNRESCUING = "rescuing", "unrescuing"
SHELVING, SHELVING_OFFLOADING, UNSHELVING = "shelving", "shelving_offloading", "unshelving"
SHELVING_IMAGE_PENDING_UPLOAD, SHELVING_IMAGE_UPLOADING = "shelving_image_pending_upload", "shelving_image_uploading"
SOFT_DELETING, RESTORING = "soft-deleting", "restoring"
REBUILDING, REBUILD_SPAWNING = "rebuilding", "rebuild_spawning"
REBUILD_BLOCK_DEVICE_MAPPING = "rebuild_block_device_mapping"
BEFORE = "before"       # in the arguments of a rebuild: its image, for a server of which the host can make no other guest

# power_state
NOSTATE, RUNNING, POWER_PAUSED, SHUTDOWN, CRASHED, POWER_SUSPENDED = 0, 1, 3, 4, 6, 7
POWER_NAMES = {NOSTATE: "pending", RUNNING: "running", POWER_PAUSED: "paused", SHUTDOWN: "shutdown", CRASHED: "crashed",
               POWER_SUSPENDED: "suspended"}

# the task_states of a build, in order
BUILD_STATES = (SCHEDULING, NETWORKING, BLOCK_DEVICE_MAPPING, SPAWNING)
RESIZE_STATES = (RESIZE_PREP, RESIZE_MIGRATING, RESIZE_MIGRATED, RESIZE_FINISH)
REBUILD_STATES = (REBUILDING, REBUILD_BLOCK_DEVICE_MAPPING, REBUILD_SPAWNING)
SHELVE_STATES = (SHELVING, SHELVING_IMAGE_PENDING_UPLOAD, SHELVING_IMAGE_UPLOADING, SHELVING_OFFLOADING)


def owns_shelved_image(instance: Instance) -> bool:
    """Whether the image of a shelved server is deleted together with it: the server is shelved, is being shelved or unshelved,
    or was shelved when it was soft-deleted. In any other state the image may be the only copy."""
    return instance.vm_state in (SHELVED, SHELVED_OFFLOADED, SOFT_DELETED) or (
        instance.task_state in SHELVE_STATES)


def left_image(instance: Instance) -> str | None:
    """The image of a shelved server that was soft-deleted: it is deleted with the server. In any other state the image may be
    the only copy of the server."""
    return instance.system_metadata.get(SHELVED_IMAGE) if instance.vm_state == SOFT_DELETED else None


_STATUS: dict[str, str] = {
    ACTIVE: "ACTIVE", BUILDING: "BUILD", STOPPED: "SHUTOFF", RESIZED: "VERIFY_RESIZE", PAUSED: "PAUSED",
    SUSPENDED: "SUSPENDED", RESCUED: "RESCUE", ERROR: "ERROR", DELETED: "DELETED", SOFT_DELETED: "SOFT_DELETED",
    SHELVED: "SHELVED", SHELVED_OFFLOADED: "SHELVED_OFFLOADED"}
_REBUILD = dict.fromkeys(REBUILD_STATES, "REBUILD")
_RESIZE = dict.fromkeys(RESIZE_STATES, "RESIZE")
_STATUS_BY_TASK: dict[str, dict[str, str]] = {
    ACTIVE: {**_REBUILD, **_RESIZE, REBOOTING: "REBOOT", "reboot_pending": "REBOOT", REBOOT_STARTED: "REBOOT",
             REBOOTING_HARD: "HARD_REBOOT", "reboot_pending_hard": "HARD_REBOOT", REBOOT_STARTED_HARD: "HARD_REBOOT",
             UPDATING_PASSWORD: "PASSWORD", MIGRATING: "MIGRATING"},
    STOPPED: {**_RESIZE, **_REBUILD},
    RESIZED: {RESIZE_REVERTING: "REVERT_RESIZE"},
    PAUSED: {MIGRATING: "MIGRATING"},
    ERROR: _REBUILD,
}
UNKNOWN = "UNKNOWN"
STATUSES = sorted({UNKNOWN, *_STATUS.values(), *(s for by_task in _STATUS_BY_TASK.values() for s in by_task.values())})
"""Every ``status`` that clients may see."""


def status(vm_state: str, task_state: str | None) -> str:
    """The ``status`` that clients see for a pair of states."""
    default = _STATUS.get(vm_state, UNKNOWN)
    return _STATUS_BY_TASK.get(vm_state, {}).get(task_state or "", default)


def states_of(wanted: str) -> list[tuple[str, list[str] | None]]:
    """The (vm_state, task_states) pairs that show as status ``wanted``; task_states None: any other than those of the table.

    An unknown status gives an empty list.
    """
    wanted = wanted.upper()
    found: list[tuple[str, list[str] | None]] = []
    for vm_state, default in _STATUS.items():
        tasks = _STATUS_BY_TASK.get(vm_state, {})
        if default == wanted:
            found.append((vm_state, None))
        elif wanted in tasks.values():
            found.append((vm_state, [t for t, s in tasks.items() if s == wanted]))
    return found


def other_tasks(vm_state: str) -> list[str]:
    """The task_states in which ``vm_state`` shows as another status than its default one."""
    return list(_STATUS_BY_TASK.get(vm_state, {}))
