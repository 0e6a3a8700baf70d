"""The table of verbs: one row for each operation on a server. ``verb.py`` explains the columns.

The preconditions are those of Nova's compute API (``nova/compute/api.py`` of Nova 34).
"""
from __future__ import annotations

from nova_lite.objects import migration, states
from nova_lite.objects.states import ACTIVE, ERROR, PAUSED, RESCUED, RESIZED, RUNNING, SHUTDOWN, STOPPED, SUSPENDED
from nova_lite.operations import steps
from nova_lite.operations.verb import Begins, Guest, IfHostDies, Move, MoveKind, PendingCleanup, Runs, Verb, WithoutHost

ANY: tuple[str, ...] = ()
ANY_TASK: tuple[str | None, ...] = ()
QUIET = (ACTIVE, PAUSED, SUSPENDED, STOPPED)
_WITH_DISKS = (ACTIVE, PAUSED, STOPPED, RESIZED, states.SOFT_DELETED, states.SHELVED, states.SHELVED_OFFLOADED)
_FOR_NICS = (ACTIVE, PAUSED, STOPPED)
# in these task_states the guest is complete and at the host of its server: no verb moves it or makes a new one
_GUEST_STAYS = (
    None, states.POWERING_OFF, states.POWERING_ON, states.REBOOTING, states.REBOOT_STARTED, states.REBOOTING_HARD,
    states.REBOOT_STARTED_HARD, states.PAUSING, states.UNPAUSING, states.SUSPENDING, states.RESUMING, states.UPDATING_PASSWORD,
    states.IMAGE_SNAPSHOT_PENDING, states.IMAGE_SNAPSHOT, states.IMAGE_BACKUP, states.IMAGE_PENDING_UPLOAD,
    states.IMAGE_UPLOADING, states.RESCUING, states.UNRESCUING, states.SOFT_DELETING, states.RESTORING)
_HARD_REBOOT_ALSO = (None, states.REBOOTING, states.REBOOT_STARTED, states.REBOOTING_HARD, states.RESUMING, states.UNPAUSING,
                     states.PAUSING, states.SUSPENDING)
_PLACE = frozenset({"host", "node", "launched_on", "availability_zone"})
_SIZE = frozenset({"flavor", "flavor_ref", "vcpus", "memory_mb", "root_gb"})
_GUEST = frozenset({"network_info", "block_devices"})
_BUILT = frozenset({"launched_at", "personality"})
_POWERED = frozenset({"shares", "network_info"})
_VOLUME, _NIC, _SHARE = frozenset({"block_device"}), frozenset({"nic", "error"}), frozenset({"share"})


def _cold(type: str) -> Move:
    return Move(MoveKind.COLD, (migration.PRE_MIGRATING, migration.MIGRATING, migration.POST_MIGRATING), migration.FINISHED,
                type=type)


_CONFIRMS = Move(MoveKind.SETTLES, (migration.CONFIRMING,), migration.CONFIRMED, is_final=True)
_REVERTS = Move(MoveKind.SETTLES, (migration.REVERTING,), migration.REVERTED, to_source=True)
_LIVE = Move(MoveKind.LIVE, (migration.ACCEPTED, migration.QUEUED, migration.PREPARING, migration.RUNNING),
             migration.COMPLETED, type=migration.LIVE_MIGRATION, is_final=True)
_EVACUATES = Move(MoveKind.EVACUATION, (migration.ACCEPTED, migration.PRE_MIGRATING), migration.DONE,
                  fails_as=migration.FAILED, type=migration.EVACUATION)

VERBS: dict[str, Verb] = {row.name: row for row in (
    # builds and deletes
    Verb(name="build", request="POST /servers", action="create", event="_do_build_and_run_instance",
         vm_states=(states.BUILDING,), task_states=(states.SCHEDULING,), respects_lock=False, must_have_launched=False,
         working=states.BUILD_STATES, ends_in=ACTIVE, power_state=RUNNING, fails_in=ERROR, begins=Begins.CONDUCTOR,
         if_host_dies=IfHostDies.ANOTHER, runs=Runs.BUILD, new_server=True, forgets_files=True,
         waiting_event="build_and_run_instance", writes=_GUEST | {"system_metadata"}, notification="create"),
    Verb(name="delete", request="DELETE /servers/{server_id}", action="delete", event="terminate_instance", vm_states=ANY,
         task_states=ANY_TASK, must_have_launched=False, working=(states.DELETING,), ends_in=states.DELETED,
         power_state=states.NOSTATE, fails_in=ERROR, is_repeatable=True, if_host_dies=IfHostDies.DONE,
         without_host=WithoutHost.DELETE, notification="delete"),
    Verb(name="force_delete", request="forceDelete", action="delete", event="terminate_instance", vm_states=ANY,
         task_states=ANY_TASK, must_have_launched=False, working=(states.DELETING,), ends_in=states.DELETED,
         power_state=states.NOSTATE, fails_in=ERROR, is_repeatable=True, if_host_dies=IfHostDies.DONE,
         without_host=WithoutHost.DELETE, notification="delete"),
    # a server that may be restored must have a complete guest: during a move only a delete for good is allowed
    Verb(name="soft_delete", request="DELETE /servers/{server_id}", action="delete", event="soft_delete_instance",
         vm_states=ANY, task_states=_GUEST_STAYS, working=(states.SOFT_DELETING,), ends_in=states.SOFT_DELETED,
         power_state=SHUTDOWN, fails_in=ERROR, is_repeatable=True, if_host_dies=IfHostDies.DONE, ends_waiting_move=True,
         writes=frozenset({"deleted_at"}), notification="soft_delete"),
    Verb(name="restore", request="restore", action="restore", event="restore_instance", vm_states=(states.SOFT_DELETED,),
         working=(states.RESTORING,), ends_in=ACTIVE, power_state=RUNNING, fails_in=ERROR,
         if_host_dies=IfHostDies.FAIL_IF_BEGUN, writes=frozenset({"deleted_at", "system_metadata"}), notification="restore"),
    # power
    Verb(name="start", request="os-start", action="start", event="start_instance", vm_states=(STOPPED,),
         working=(states.POWERING_ON,), ends_in=ACTIVE, power_state=RUNNING, fails_in=ERROR,
         if_host_dies=IfHostDies.FAIL_IF_BEGUN, writes=_POWERED, notification="power_on"),
    Verb(name="stop", request="os-stop", action="stop", event="stop_instance", vm_states=(ACTIVE, ERROR),
         working=(states.POWERING_OFF,), ends_in=STOPPED, power_state=SHUTDOWN, fails_in=ERROR,
         if_host_dies=IfHostDies.FAIL_IF_BEGUN, writes=frozenset({"shares"}), notification="power_off"),
    Verb(name="reboot", request="reboot", action="reboot", event="reboot_instance", vm_states=(ACTIVE,),
         working=(states.REBOOTING, states.REBOOT_STARTED), ends_in=ACTIVE, power_state=RUNNING, fails_in=ERROR,
         if_host_dies=IfHostDies.FAIL_IF_BEGUN, notification="reboot"),
    Verb(name="reboot_hard", request="reboot", action="reboot", event="reboot_instance",
         vm_states=(ACTIVE, STOPPED, PAUSED, SUSPENDED, ERROR), task_states=_HARD_REBOOT_ALSO,
         working=(states.REBOOTING_HARD, states.REBOOT_STARTED_HARD), ends_in=ACTIVE, power_state=RUNNING, fails_in=ERROR,
         is_repeatable=True, if_host_dies=IfHostDies.FAIL_IF_BEGUN, writes=_POWERED, notification="reboot"),
    Verb(name="pause", request="pause", action="pause", event="pause_instance", vm_states=(ACTIVE,), working=(states.PAUSING,),
         ends_in=PAUSED, power_state=states.POWER_PAUSED, fails_in=ERROR, if_host_dies=IfHostDies.FAIL_IF_BEGUN,
         stops_guest=True, notification="pause"),
    Verb(name="unpause", request="unpause", action="unpause", event="unpause_instance", vm_states=(PAUSED,),
         working=(states.UNPAUSING,), ends_in=ACTIVE, power_state=RUNNING, fails_in=ERROR,
         if_host_dies=IfHostDies.FAIL_IF_BEGUN, notification="unpause"),
    Verb(name="suspend", request="suspend", action="suspend", event="suspend_instance", vm_states=(ACTIVE,), with_shares=False,
         working=(states.SUSPENDING,), ends_in=SUSPENDED, power_state=SHUTDOWN, fails_in=ERROR,
         if_host_dies=IfHostDies.FAIL_IF_BEGUN, takes_guest_away=True, notification="suspend"),
    # a failure leaves the server suspended: the saved memory is still there
    Verb(name="resume", request="resume", action="resume", event="resume_instance", vm_states=(SUSPENDED,),
         working=(states.RESUMING,), ends_in=ACTIVE, power_state=RUNNING, if_host_dies=IfHostDies.FAIL_IF_BEGUN,
         notification="resume"),
    Verb(name="changePassword", request="changePassword", action="changePassword", event="set_admin_password",
         vm_states=(ACTIVE,), working=(states.UPDATING_PASSWORD,), ends_in=ACTIVE, power_state=RUNNING, fails_in=ERROR,
         if_host_dies=IfHostDies.FAIL_IF_BEGUN),
    Verb(name="trigger_crash_dump", request="trigger_crash_dump", action="trigger_crash_dump", event="trigger_crash_dump",
         vm_states=(ACTIVE, PAUSED, RESCUED, RESIZED, ERROR), if_host_dies=IfHostDies.WAIT, notification="trigger_crash_dump"),
    # the guest is made again; the host reports that a server is stopped which was stopped before
    Verb(name="rebuild", request="rebuild", action="rebuild", event="rebuild_instance", vm_states=(ACTIVE, STOPPED, ERROR),
         with_shares=False, working=states.REBUILD_STATES, ends_in=ACTIVE, power_state=RUNNING, fails_in=ERROR,
         if_host_dies=IfHostDies.FAIL, runs=Runs.LONG, forgets_files=True,
         writes=_BUILT | {"block_devices", "image", "image_ref", "config_drive"},
         notes=frozenset({"reimage_asked"}), notification="rebuild"),
    Verb(name="rescue", request="rescue", action="rescue", event="rescue_instance", vm_states=(ACTIVE, STOPPED, ERROR),
         working=(states.RESCUING,), ends_in=RESCUED, power_state=RUNNING, fails_in=ERROR,
         if_host_dies=IfHostDies.FAIL_IF_BEGUN, runs=Runs.LONG, notification="rescue"),
    Verb(name="unrescue", request="unrescue", action="unrescue", event="unrescue_instance", vm_states=(RESCUED,),
         working=(states.UNRESCUING,), ends_in=ACTIVE, power_state=RUNNING, fails_in=ERROR,
         if_host_dies=IfHostDies.FAIL_IF_BEGUN, notification="unrescue"),
    # moves
    Verb(name="resize", request="resize", action="resize", event="finish_resize", vm_states=(ACTIVE, STOPPED),
         with_shares=False, working=states.RESIZE_STATES, ends_in=RESIZED, power_state=RUNNING, fails_in=ERROR,
         begins=Begins.CONDUCTOR, if_host_dies=IfHostDies.PARTNER, runs=Runs.LONG, guest=Guest.EITHER,
         steps=steps.COLD, move=_cold(migration.RESIZE), changes_flavor=True, takes_guest_away=True,
         writes=_PLACE | _SIZE | _GUEST | {"launched_at"}, hands_over=frozenset({steps.UNDO_REASON}), notification="resize"),
    Verb(name="migrate", request="migrate", action="migrate", event="finish_resize", vm_states=(ACTIVE, STOPPED),
         with_shares=False, working=states.RESIZE_STATES, ends_in=RESIZED, power_state=RUNNING, fails_in=ERROR,
         begins=Begins.CONDUCTOR, if_host_dies=IfHostDies.PARTNER, runs=Runs.LONG, guest=Guest.EITHER,
         steps=steps.COLD, move=_cold(migration.MIGRATION), takes_guest_away=True,
         writes=_PLACE | _SIZE | _GUEST | {"launched_at"}, hands_over=frozenset({steps.UNDO_REASON}), notification="resize"),
    Verb(name="confirmResize", request="confirmResize", action="confirmResize", event="confirm_resize", vm_states=(RESIZED,),
         working=(states.RESIZE_CONFIRMING,), ends_in=ACTIVE, power_state=RUNNING, fails_in=RESIZED, begins=Begins.SOURCE,
         if_host_dies=IfHostDies.DONE, move=_CONFIRMS, writes=_SIZE, notification="resize_confirm"),
    Verb(name="revertResize", request="revertResize", action="revertResize", event="revert_resize", vm_states=(RESIZED,),
         working=(states.RESIZE_REVERTING,), ends_in=ACTIVE, power_state=RUNNING, fails_in=RESIZED, begins=Begins.DESTINATION,
         if_host_dies=IfHostDies.WAIT, guest=Guest.EITHER, steps=steps.REVERT, move=_REVERTS, takes_guest_away=True,
         writes=_PLACE | _SIZE | _GUEST | {"launched_at"}, notification="resize_revert"),
    # only its hosts can find out where the guest is: they end the migration, however often they die
    Verb(name="live_migrate", request="os-migrateLive", action="live-migration", event="live_migration",
         vm_states=(ACTIVE, PAUSED), with_shares=False, working=(states.MIGRATING,), begins=Begins.CONDUCTOR,
         if_host_dies=IfHostDies.PARTNER, runs=Runs.LONG, guest=Guest.EITHER, move=_LIVE, is_given_up=False,
         steps=steps.LIVE, takes_guest_away=True, writes=_PLACE | _GUEST,
         hands_over=frozenset({"has_come", "error", "ends_as", migration.LOST})),
    Verb(name="evacuate", request="evacuate", action="evacuate", event="rebuild_instance", vm_states=(ACTIVE, STOPPED, ERROR),
         task_states=ANY_TASK, respects_lock=False, with_shares=False, working=states.REBUILD_STATES, ends_in=ACTIVE,
         power_state=RUNNING, fails_in=ERROR, begins=Begins.CONDUCTOR, if_host_dies=IfHostDies.ANOTHER, runs=Runs.LONG,
         guest=Guest.RETURNS, move=_EVACUATES, writes=_PLACE | _GUEST | _BUILT, notification="rebuild",
         notification_at_conductor="evacuate"),
    # shelving; the host reports when it has offloaded the server at once
    Verb(name="shelve", request="shelve", action="shelve", event="shelve_instance", vm_states=QUIET, with_shares=False,
         working=states.SHELVE_STATES, ends_in=states.SHELVED, power_state=SHUTDOWN, fails_in=ERROR,
         if_host_dies=IfHostDies.STAY_SHELVED, runs=Runs.LONG, takes_guest_away=True, writes=_PLACE | {"block_devices"},
         notification="shelve"),
    Verb(name="shelveOffload", request="shelveOffload", action="shelveOffload", event="shelve_offload_instance",
         vm_states=(states.SHELVED,), working=(states.SHELVING_OFFLOADING,), ends_in=states.SHELVED_OFFLOADED,
         power_state=SHUTDOWN, fails_in=ERROR, if_host_dies=IfHostDies.STAY_SHELVED, takes_guest_away=True,
         writes=_PLACE | {"block_devices"}, notification="shelve_offload"),
    Verb(name="unshelve", request="unshelve", action="unshelve", event="unshelve_instance",
         vm_states=(states.SHELVED, states.SHELVED_OFFLOADED), working=(states.UNSHELVING,), ends_in=ACTIVE,
         power_state=RUNNING, fails_in=ERROR, begins=Begins.CONDUCTOR, if_host_dies=IfHostDies.STAY_SHELVED, runs=Runs.LONG,
         takes_guest_away=True, writes=_PLACE | _GUEST | {"launched_at", "system_metadata"}, notification="unshelve"),
    # images; these verbs set the task_state only
    Verb(name="createImage", request="createImage", action="createImage", event="snapshot_instance", vm_states=QUIET,
         respects_lock=False,
         working=(states.IMAGE_SNAPSHOT_PENDING, states.IMAGE_SNAPSHOT, states.IMAGE_PENDING_UPLOAD, states.IMAGE_UPLOADING),
         if_host_dies=IfHostDies.WAIT, runs=Runs.LONG, pending_cleanup=PendingCleanup.IMAGE, notification="snapshot"),
    Verb(name="createBackup", request="createBackup", action="createBackup", event="backup_instance", vm_states=QUIET,
         respects_lock=False, working=(states.IMAGE_BACKUP, states.IMAGE_PENDING_UPLOAD, states.IMAGE_UPLOADING),
         if_host_dies=IfHostDies.WAIT, runs=Runs.LONG, pending_cleanup=PendingCleanup.IMAGE, notification="snapshot"),
    # the API makes the snapshots of volumes; a host finishes the action when the request died
    Verb(name="snapshot_volumes", request="createImage", action="createImage", event="snapshot_instance", vm_states=QUIET,
         respects_lock=False, if_host_dies=IfHostDies.WAIT, runs=Runs.LONG, freezes_guest=True,
         pending_cleanup=PendingCleanup.SNAPSHOTS),
    # devices; these verbs change no state, so several actions may be open: the host does one after the other
    Verb(name="attach_volume", request="POST /servers/{server_id}/os-volume_attachments", action="attach_volume",
         event="attach_volume", vm_states=_WITH_DISKS, if_host_dies=IfHostDies.WAIT, without_host=WithoutHost.UNDO,
         writes=_VOLUME, notification="volume_attach"),
    Verb(name="detach_volume", request="DELETE /servers/{server_id}/os-volume_attachments/{volume_id}", action="detach_volume",
         event="detach_volume", vm_states=_WITH_DISKS, if_host_dies=IfHostDies.WAIT, without_host=WithoutHost.DETACH,
         writes=_VOLUME, notification="volume_detach"),
    Verb(name="swap_volume", request="PUT /servers/{server_id}/os-volume_attachments/{volume_id}", action="swap_volume",
         event="swap_volume", vm_states=(ACTIVE, PAUSED, RESIZED), if_host_dies=IfHostDies.WAIT, runs=Runs.LONG,
         writes=_VOLUME, exchanges_volume=True, pending_cleanup=PendingCleanup.ANSWER, notification="volume_swap"),
    Verb(name="volume_snapshot_create", request="POST /os-assisted-volume-snapshots", action="volume_snapshot_create",
         event="volume_snapshot_create", vm_states=ANY, respects_lock=False, must_have_launched=False,
         if_host_dies=IfHostDies.WAIT),
    Verb(name="volume_snapshot_delete", request="DELETE /os-assisted-volume-snapshots/{snapshot_id}",
         action="volume_snapshot_delete", event="volume_snapshot_delete", vm_states=ANY, respects_lock=False,
         must_have_launched=False, if_host_dies=IfHostDies.WAIT),
    # the Volume service reports an extension that it has done: the API cannot refuse it
    Verb(name="extend_volume", request="POST /os-server-external-events", action="extend_volume", event="extend_volume",
         vm_states=ANY, task_states=ANY_TASK, respects_lock=False, must_have_launched=False, if_host_dies=IfHostDies.WAIT),
    Verb(name="attach_share", request="POST /servers/{server_id}/shares", action="attach_share", event="allow_share",
         vm_states=(STOPPED,), if_host_dies=IfHostDies.WAIT, writes=_SHARE),
    Verb(name="detach_share", request="DELETE /servers/{server_id}/shares/{share_id}", action="detach_share",
         event="deny_share", vm_states=(STOPPED, ERROR), if_host_dies=IfHostDies.WAIT, writes=_SHARE),
    Verb(name="attach_interface", request="POST /servers/{server_id}/os-interface", action="attach_interface",
         event="attach_interface", vm_states=_FOR_NICS, if_host_dies=IfHostDies.WAIT, writes=_NIC,
         notification="interface_attach"),
    Verb(name="detach_interface", request="DELETE /servers/{server_id}/os-interface/{port_id}", action="detach_interface",
         event="detach_interface", vm_states=_FOR_NICS, if_host_dies=IfHostDies.WAIT, writes=_NIC,
         notification="interface_detach"),
)}
# in these task_states the guest may be at another host than the record of its server names
BETWEEN_HOSTS = frozenset(state for row in VERBS.values() if row.guest is not Guest.ONE for state in row.working)
