"""nova-lite-compute of the old release, whose operations stop where a test wants it. Run by the old interpreter.

``NOVA_LITE_HOLDS`` is a directory. A file ``<name of the server>@<point>`` with the word ``hold`` stops the operation there,
until the process dies or the file goes; with ``fail`` the operation fails there. A point is an operation of the hypervisor,
``keys`` (a build begins), ``task:`` and the task_state that was just written, or ``live:`` and the step of a live migration.
``<file>.reached`` says that somebody was there.
"""
from __future__ import annotations

import os
import pathlib
import sys
import time

from nova_lite.cmd import compute
from nova_lite.compute import disk_keys, live_migrate
from nova_lite.compute.work import Work
from nova_lite.virt.fake import FakeDriver

HOLDS = pathlib.Path(os.environ["NOVA_LITE_HOLDS"])


def _reach(server, point):
    file = HOLDS / f"{server}@{point}"
    if not file.exists():
        return
    what = file.read_text()
    (HOLDS / f"{file.name}.reached").touch()
    if what == "fail":
        raise RuntimeError(f"the test lets {point} fail")
    while file.exists():
        time.sleep(0.2)


def _before_driver(act):
    def wrapped(self, operation, instance):
        _reach(instance.display_name, operation)
        act(self, operation, instance)
    return wrapped


def _after_update(update):
    def wrapped(self, updates, expected_task_states):
        update(self, updates, expected_task_states)
        if updates.get("task_state"):
            _reach(self.instance.display_name, f"task:{updates['task_state']}")
    return wrapped


def _before_live(name, step):
    def wrapped(work):
        _reach(work.instance.display_name, f"live:{name}")
        step(work)
    return wrapped


def _before_keys(ensure):
    def wrapped(work):
        _reach(work.instance.display_name, "keys")
        ensure(work)
    return wrapped


FakeDriver._act = _before_driver(FakeDriver._act)
Work.update = _after_update(Work.update)
disk_keys.ensure = _before_keys(disk_keys.ensure)
steps = getattr(live_migrate, "_STEPS", {})
steps.update({name: _before_live(name, step) for name, step in steps.items()})
sys.exit(compute.main())
