"""The states of a server and what each operation needs and does: the one table that API, workers, recovery and docs read.

Nobody else compares state strings. Source of the preconditions: Nova's compute API (reference states_policies.md C4, C5).
"""
from __future__ import annotations

from dataclasses import dataclass

from nova_lite import exception
from nova_lite.objects.instance import SHELVED_IMAGE, Instance

# vm_state
ACTIVE, BUILDING, PAUSED, SUSPENDED, STOPPED = "active", "building", "paused", "suspended", "stopped"
RESCUED, RESIZED, SOFT_DELETED, DELETED, ERROR = "rescued", "resized", "soft-delete", "deleted", "error"
SHELVED, SHELVED_OFFLOADED = "shelved", "shelved_offloaded"
VM_STATES = (ACTIVE, BUILDING, PAUSED, SUSPENDED, STOPPED, RESCUED, RESIZED, SOFT_DELETED, DELETED, ERROR, SHELVED,
             SHELVED_OFFLOADED)

# task_state of the operations that exist so far; None is idle
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

ANY: tuple[str, ...] = ()
_QUIET = (ACTIVE, PAUSED, SUSPENDED, STOPPED)
_WITH_DISKS = (ACTIVE, PAUSED, STOPPED, RESIZED, SOFT_DELETED, SHELVED, SHELVED_OFFLOADED)
IDLE: tuple[str | None, ...] = (None,)
ANY_TASK: tuple[str | None, ...] = ()
# the guest may be stopped or busy, but it is where the server says, and whole: nobody moves it or makes it anew
_GUEST_STAYS = (None, POWERING_OFF, POWERING_ON, REBOOTING, REBOOT_STARTED, REBOOTING_HARD, REBOOT_STARTED_HARD, PAUSING,
                UNPAUSING, SUSPENDING, RESUMING, UPDATING_PASSWORD, IMAGE_SNAPSHOT_PENDING, IMAGE_SNAPSHOT, IMAGE_BACKUP,
                IMAGE_PENDING_UPLOAD, IMAGE_UPLOADING, RESCUING, UNRESCUING, SOFT_DELETING, RESTORING)


@dataclass(frozen=True)
class Operation:
    """One row: what an operation needs, the task_state that it sets, and where a success ends (``ends_in`` None: where it was).

    ``vm_states`` and ``task_states`` empty: any. ``event`` is what os-instance-actions calls the work of a host, behind
    ``compute_``.
    ``verb`` is what errors call it ("Cannot 'reboot' instance ..."), ``action`` the name in os-instance-actions.
    """

    verb: str
    action: str
    event: str
    vm_states: tuple[str, ...]
    task_states: tuple[str | None, ...]
    task_state: str | None
    ends_in: str | None
    power_state: int | None
    respects_lock: bool = True
    must_have_launched: bool = True
    begins_at_conductor: bool = False       # it needs the scheduler before a host can work on it

    @property
    def keeps_state(self) -> bool:
        """True when the server is in the same state before, meanwhile and after, however it ends."""
        return self.ends_in is None and self.task_state is None

    @property
    def follows_guest(self) -> bool:
        """True for what keeps the state and may come at any time: it keeps nobody from anything, waits while the guest is on
        its way (:data:`BETWEEN_HOSTS`), and is done where that has come to."""
        return self.keeps_state and not self.task_states


OPERATIONS = {o.verb: o for o in (
    Operation("build", "create", "build_and_run_instance", (BUILDING,), (SCHEDULING,), SCHEDULING, ACTIVE, RUNNING,
              False, False),
    Operation("delete", "delete", "terminate_instance", ANY, ANY_TASK, DELETING, DELETED, NOSTATE, True, False),
    Operation("force_delete", "delete", "terminate_instance", ANY, ANY_TASK, DELETING, DELETED, NOSTATE, True, False),
    Operation("start", "start", "start_instance", (STOPPED,), IDLE, POWERING_ON, ACTIVE, RUNNING),
    Operation("stop", "stop", "stop_instance", (ACTIVE, ERROR), IDLE, POWERING_OFF, STOPPED, SHUTDOWN),
    Operation("reboot", "reboot", "reboot_instance", (ACTIVE,), IDLE, REBOOTING, ACTIVE, RUNNING),
    Operation("reboot_hard", "reboot", "reboot_instance", (ACTIVE, STOPPED, PAUSED, SUSPENDED, ERROR),
              (None, REBOOTING, REBOOT_STARTED, REBOOTING_HARD, RESUMING, UNPAUSING, PAUSING, SUSPENDING), REBOOTING_HARD,
              ACTIVE, RUNNING),
    Operation("pause", "pause", "pause_instance", (ACTIVE,), IDLE, PAUSING, PAUSED, POWER_PAUSED),
    Operation("unpause", "unpause", "unpause_instance", (PAUSED,), IDLE, UNPAUSING, ACTIVE, RUNNING),
    Operation("suspend", "suspend", "suspend_instance", (ACTIVE,), IDLE, SUSPENDING, SUSPENDED, SHUTDOWN),
    Operation("resume", "resume", "resume_instance", (SUSPENDED,), IDLE, RESUMING, ACTIVE, RUNNING),
    Operation("changePassword", "changePassword", "set_admin_password", (ACTIVE,), IDLE, UPDATING_PASSWORD, ACTIVE, RUNNING),
    Operation("trigger_crash_dump", "trigger_crash_dump", "trigger_crash_dump", (ACTIVE, PAUSED, RESCUED, RESIZED, ERROR), IDLE,
              None, None, None),
    # a server that was stopped is stopped again: the host says so
    Operation("rebuild", "rebuild", "rebuild_instance", (ACTIVE, STOPPED, ERROR), IDLE, REBUILDING, ACTIVE, RUNNING),
    Operation("rescue", "rescue", "rescue_instance", (ACTIVE, STOPPED, ERROR), IDLE, RESCUING, RESCUED, RUNNING),
    Operation("unrescue", "unrescue", "unrescue_instance", (RESCUED,), IDLE, UNRESCUING, ACTIVE, RUNNING),
    Operation("resize", "resize", "resize_instance", (ACTIVE, STOPPED), IDLE, RESIZE_PREP, RESIZED, RUNNING,
              begins_at_conductor=True),
    Operation("migrate", "migrate", "resize_instance", (ACTIVE, STOPPED), IDLE, RESIZE_PREP, RESIZED, RUNNING,
              begins_at_conductor=True),
    Operation("confirmResize", "confirmResize", "confirm_resize", (RESIZED,), IDLE, RESIZE_CONFIRMING, ACTIVE, RUNNING),
    Operation("revertResize", "revertResize", "revert_resize", (RESIZED,), IDLE, RESIZE_REVERTING, ACTIVE, RUNNING),
    # where offloading follows at once, the host says that it has
    Operation("shelve", "shelve", "shelve_instance", _QUIET, IDLE, SHELVING, SHELVED, SHUTDOWN),
    Operation("shelveOffload", "shelveOffload", "shelve_offload_instance", (SHELVED,), IDLE, SHELVING_OFFLOADING,
              SHELVED_OFFLOADED, SHUTDOWN),
    Operation("unshelve", "unshelve", "unshelve_instance", (SHELVED, SHELVED_OFFLOADED), IDLE, UNSHELVING, ACTIVE, RUNNING,
              begins_at_conductor=True),
    # what shall be brought back must be whole: in the middle of a move only a delete for good is taken
    Operation("soft_delete", "delete", "soft_delete_instance", ANY, _GUEST_STAYS, SOFT_DELETING, SOFT_DELETED, SHUTDOWN),
    Operation("restore", "restore", "restore_instance", (SOFT_DELETED,), IDLE, RESTORING, ACTIVE, RUNNING),
    # these end where they began, idle again
    Operation("createImage", "createImage", "snapshot_instance", _QUIET, IDLE, IMAGE_SNAPSHOT_PENDING, None, None, False),
    Operation("createBackup", "createBackup", "backup_instance", _QUIET, IDLE, IMAGE_BACKUP, None, None, False),
    Operation("evacuate", "evacuate", "rebuild_instance", (ACTIVE, STOPPED, ERROR), ANY_TASK, REBUILDING, ACTIVE, RUNNING,
              False, begins_at_conductor=True),
    Operation("live_migrate", "live-migration", "live_migrate", (ACTIVE, PAUSED), IDLE, MIGRATING, None, None,
              begins_at_conductor=True),
    # these change no state, so several may be under way: the host does them one after the other
    Operation("attach_volume", "attach_volume", "attach_volume", _WITH_DISKS, IDLE, None, None, None),
    Operation("detach_volume", "detach_volume", "detach_volume", _WITH_DISKS, IDLE, None, None, None),
    Operation("swap_volume", "swap_volume", "swap_volume", (ACTIVE, PAUSED, RESIZED), IDLE, None, None, None),
    Operation("volume_snapshot_create", "volume_snapshot_create", "volume_snapshot_create", ANY, IDLE, None, None, None, False,
              False),
    Operation("volume_snapshot_delete", "volume_snapshot_delete", "volume_snapshot_delete", ANY, IDLE, None, None, None, False,
              False),
    # the Volume service tells of it, when it is done there: nobody can refuse it
    Operation("extend_volume", "extend_volume", "extend_volume", ANY, ANY_TASK, None, None, None, False, False),
    # of volumes: made by the API; what that has left, the host ends
    Operation("snapshot_volumes", "createImage", "snapshot_instance", _QUIET, IDLE, None, None, None, False),
    Operation("attach_share", "attach_share", "allow_share", (STOPPED,), IDLE, None, None, None),
    Operation("detach_share", "detach_share", "deny_share", (STOPPED, ERROR), IDLE, None, None, None),
    Operation("attach_interface", "attach_interface", "attach_interface", (ACTIVE, PAUSED, STOPPED), IDLE, None, None, None),
    Operation("detach_interface", "detach_interface", "detach_interface", (ACTIVE, PAUSED, STOPPED), IDLE, None, None, None),
)}

# the guest, or its disks, leave the host, or its memory goes to disk, which knows the devices that it was saved with: what just
# changes its devices there must have ended
TAKES_GUEST_AWAY = ("resize", "migrate", "revertResize", "live_migrate", "shelve", "shelveOffload", "unshelve", "suspend")
# the guest's processors stand still: nobody could let file systems go on that an image of its volumes has frozen
STOPS_GUEST = ("pause",)


def holds_up(change: Operation, verb: str) -> bool:
    """Whether ``verb`` cannot begin as long as ``change`` is under way, although the server's state says nothing of it."""
    if verb in STOPS_GUEST:
        return change.verb == "snapshot_volumes"
    return verb in TAKES_GUEST_AWAY and change.keeps_state and not change.follows_guest


# what Nova does not do with a server that has shares of files: they are mounted on its host, and in its guest's memory
NOT_WITH_SHARES = ("suspend", "shelve", "rebuild", "resize", "migrate", "live-migration", "evacuate")

# the task_states of a build, in order
BUILD_STATES = (SCHEDULING, NETWORKING, BLOCK_DEVICE_MAPPING, SPAWNING)
RESIZE_STATES = (RESIZE_PREP, RESIZE_MIGRATING, RESIZE_MIGRATED, RESIZE_FINISH)
REBUILD_STATES = (REBUILDING, REBUILD_BLOCK_DEVICE_MAPPING, REBUILD_SPAWNING)
# the server's host may not have the guest, or not for long: an evacuation has the states of a rebuild
BETWEEN_HOSTS = (*RESIZE_STATES, RESIZE_REVERTING, MIGRATING, *REBUILD_STATES)
_ON_THE_WAY: dict[str, tuple[str, ...]] = {
    "resize": RESIZE_STATES, "migrate": RESIZE_STATES,
    "build": BUILD_STATES, "reboot": (REBOOTING, REBOOT_STARTED), "reboot_hard": (REBOOTING_HARD, REBOOT_STARTED_HARD),
    "createImage": (IMAGE_SNAPSHOT_PENDING, IMAGE_SNAPSHOT, IMAGE_PENDING_UPLOAD, IMAGE_UPLOADING),
    "createBackup": (IMAGE_BACKUP, IMAGE_PENDING_UPLOAD, IMAGE_UPLOADING),
    "shelve": (SHELVING, SHELVING_IMAGE_PENDING_UPLOAD, SHELVING_IMAGE_UPLOADING, SHELVING_OFFLOADING),
    "rebuild": REBUILD_STATES, "evacuate": REBUILD_STATES}


def working(operation: Operation) -> tuple[str, ...]:
    """The task_states that say that ``operation`` is what is being done with a server, and nothing else."""
    return _ON_THE_WAY.get(operation.verb, (operation.task_state,) if operation.task_state else ())


def may_have_shelf(instance: Instance) -> bool:
    """Whether a server is on its shelf, or on its way there or back, or was there when it was soft-deleted: the image of the
    shelf goes with it. Any other that still knows of one is in trouble."""
    return instance.vm_state in (SHELVED, SHELVED_OFFLOADED, SOFT_DELETED) or (
        instance.task_state in working(OPERATIONS["shelve"]))


def left_image(instance: Instance) -> str | None:
    """The image of its shelf that goes with the delete of a server: a soft delete has left it, for a restore. Of any other
    state the image may be all that the user has of the server."""
    return instance.system_metadata.get(SHELVED_IMAGE) if instance.vm_state == SOFT_DELETED else None


# changes of the record that no host works on: only their preconditions are used
UPDATE_METADATA = Operation("update metadata", "update_metadata", "", _QUIET, ANY_TASK, None, None, None)
CHANGE_ADDRESSES = Operation("change addresses", "change_addresses", "", ANY, ANY_TASK, None, None, None, True, False)
INJECT_NETWORK_INFO = Operation("inject_network_info", "inject_network_info", "", ANY, ANY_TASK, None, None, None, True, False)
ABORT_LIVE_MIGRATION = Operation("abort live migration", "live_migration_cancel", "", ANY, (MIGRATING,), None, None, None)
FORCE_COMPLETE = Operation("force_complete", "live_migration_force_complete", "", (ACTIVE,), (MIGRATING,), None, None, None)
UPDATE_TAGS = Operation("update tags", "update_tags", "", _QUIET, ANY_TASK, None, None, None, False, False)

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


def check(operation: Operation, instance: Instance, may_override_lock: bool = False) -> None:
    """Raise InstanceIsLocked, InstanceNotReady or InstanceInvalidState (all 409) when the operation is not allowed now."""
    if instance.locked and operation.respects_lock and not may_override_lock:
        raise exception.InstanceIsLocked(instance_id=instance.uuid)
    if operation.must_have_launched and instance.launched_at is None:
        raise exception.InstanceNotReady(instance_id=instance.uuid)
    if instance.shares and operation.action in NOT_WITH_SHARES:
        raise exception.ForbiddenWithShare()
    verb = operation.verb.removesuffix("_hard")
    if operation.vm_states and instance.vm_state not in operation.vm_states:
        raise exception.InstanceInvalidState(action=verb, instance_id=instance.uuid, attr="vm_state",
                                             state=instance.vm_state)
    if operation.task_states and instance.task_state not in operation.task_states:
        raise exception.InstanceInvalidState(action=verb, instance_id=instance.uuid, attr="task_state",
                                             state=instance.task_state)
