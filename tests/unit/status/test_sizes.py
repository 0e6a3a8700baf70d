"""The upgrade check says which process or server is too small for the hosts."""
from __future__ import annotations

import pytest

from nova_lite import conf as nova_conf
from nova_lite import status
from nova_lite.db import services
from nova_lite.db.core import Database
from nova_lite.status import sizes
from tests.unit.db.databases import make_tables


@pytest.fixture
def conf(tmp_path):
    return nova_conf.load([], config_files=[], database__connection=make_tables(f"sqlite:///{tmp_path}/db"),
                          conductor__workers=2)


def _report(conf, hosts: int) -> None:
    db = Database(conf)
    db.write(services.heard_from, "control", services.CONDUCTOR)
    for number in range(hosts):
        db.write(services.heard_from, f"host{number}", services.COMPUTE)
    db.dispose()


@pytest.mark.parametrize(("hosts", "words"), [
    (4, "suffice"), (5, "5 hosts need 3 processes of the conductor, and there are 2")])
def test_the_upgrade_check_counts_hosts_and_conductors(conf, monkeypatch, hosts, words):
    monkeypatch.setattr(sizes, "HOSTS_PER_CONDUCTOR", 2)
    _report(conf, hosts)
    result, told = dict(status.CHECKS)["Scale"](conf)
    assert (result == status.WARNING) == (hosts == 5)
    assert words in told
