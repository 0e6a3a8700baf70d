"""What a process does not need it does not load: memory, and a compute host without anything of the database."""
from __future__ import annotations

import subprocess
import sys

import pytest

MAINS = {"api": "from nova_lite.api import wsgi", "api_metadata": "from nova_lite.api.metadata import handler",
         "conductor": "from nova_lite.conductor import manager", "scheduler": "from nova_lite.scheduler import manager",
         "novncproxy": "from nova_lite.console import proxy",
         "compute": "from nova_lite.compute import manager\nfrom nova_lite.virt import fake\n"
                    "from nova_lite import keymgr"}
NEVER = {"api": {"numpy", "libvirt", "alembic", "oslo_reports", "cryptography"},
         "api_metadata": {"sqlalchemy", "numpy", "libvirt", "alembic", "oslo_reports"},
         "conductor": {"numpy", "libvirt", "alembic", "oslo_reports", "webob", "cryptography", "keystoneauth1"},
         "scheduler": {"libvirt", "alembic", "oslo_reports", "webob", "cryptography"},
         # numpy is websockify's, which unmasks what browsers send with it
         "novncproxy": {"sqlalchemy", "libvirt", "alembic", "oslo_reports", "webob"},
         "compute": {"sqlalchemy", "numpy", "alembic", "oslo_reports", "webob", "psycopg2", "pymysql",
                     "cryptography", "castellan", "keystoneauth1"}}


@pytest.mark.parametrize("main", MAINS)
def test_a_process_loads_only_what_it_needs(main):
    code = f"import nova_lite.cmd.{main}\n{MAINS[main]}\nimport sys\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert f"nova_lite.cmd.{main}" in loaded
    assert NEVER[main] & set(loaded) == set()
