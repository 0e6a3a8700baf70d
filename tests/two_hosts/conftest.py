"""The cloud, a guest on it, and the look for what is left after each test."""
from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.process import wait_for
from tests.two_hosts import hosts, pings
from tests.two_hosts.cloud import STACK_DIR, Cloud


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only ``make two-hosts`` runs them: they need a stack, and half an hour."""
    for item in items:
        if "two_hosts" in item.nodeid.split("/")[1:2]:
            item.add_marker(pytest.mark.timeout(1800))
            if not os.environ.get("NOVA_LITE_TWO_HOSTS"):
                item.add_marker(pytest.mark.skip(reason="make two-hosts"))


@pytest.fixture(scope="session")
def whole_cloud() -> Iterator[Cloud]:
    """The stack's, with a machine beside it that pings."""
    if not (STACK_DIR / "stack.json").exists() or not hosts.HOST2.switch.exists():
        pytest.fail(f"there is no cloud of two hosts in {STACK_DIR}: devstack/local/stack.sh --hosts 2")
    cloud = Cloud()
    opened = [row["id"] for row in cloud.get("network", "v2.0/security-groups?name=default")["security_groups"]]
    for group in opened:
        cloud.call("network", "POST", "v2.0/security-group-rules", raise_exc=False, json={"security_group_rule": {
            "security_group_id": group, "direction": "ingress", "protocol": "icmp", "ethertype": "IPv4"}})
    pings.plug()
    yield cloud
    pings.unplug()


@pytest.fixture
def cloud(whole_cloud: Cloud) -> Iterator[Cloud]:
    """Nothing of a guest is left behind it, wherever."""
    before = whole_cloud.left()
    yield whole_cloud
    hosts.mend()
    whole_cloud.clean()

    def left() -> list[str]:
        return [*sorted(whole_cloud.left() - before), *hosts.HERE.left(), *hosts.HOST2.left()]
    try:
        wait_for("a clean cloud", lambda: not left(), 120, 1)
    except AssertionError:
        pytest.fail(f"left behind: {left()}")
