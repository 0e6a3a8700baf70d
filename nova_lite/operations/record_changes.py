"""Changes of a server's record that need no host. They are no verbs: only their preconditions are used."""
from __future__ import annotations

from nova_lite.objects import states
from nova_lite.operations.table import ANY, ANY_TASK, QUIET
from nova_lite.operations.verb import Change

UPDATE_METADATA = Change(name="update metadata", action="update_metadata", vm_states=QUIET, task_states=ANY_TASK)
UPDATE_TAGS = Change(name="update tags", action="update_tags", vm_states=QUIET, task_states=ANY_TASK, respects_lock=False,
                     must_have_launched=False)
CHANGE_ADDRESSES = Change(name="change addresses", action="change_addresses", vm_states=ANY, task_states=ANY_TASK,
                          must_have_launched=False)
INJECT_NETWORK_INFO = Change(name="inject_network_info", action="inject_network_info", vm_states=ANY, task_states=ANY_TASK,
                             must_have_launched=False)
ABORT_LIVE_MIGRATION = Change(name="abort live migration", action="live_migration_cancel", vm_states=ANY,
                              task_states=(states.MIGRATING,))
FORCE_COMPLETE = Change(name="force_complete", action="live_migration_force_complete", vm_states=(states.ACTIVE,),
                        task_states=(states.MIGRATING,))
