"""How tests are given to several workers (``-n 5 --dist loadfile --no-loadscope-reorder``)."""
from __future__ import annotations

import functools
import gc
import os
import pathlib
import re
from typing import Any

import pytest

DRIVER, GUESTS = "hypervisor driver", "guests"
FIRST = (DRIVER, GUESTS, *(f"tests/{name}.py" for name in (
    "integration/test_neighbour_faults", "integration/test_stock_clients", "integration/test_broker_layout",
    "chaos/test_storms", "integration/test_operators_symptoms", "security/test_http_servers",
    "integration/test_fleet_benchmark")))
"""The long ones, the longest first: no worker begins one of them when the others have nothing left to do."""
# a test that uses one of these boots real guests, which need most of the processors of a small machine
_GUESTS = re.compile(r"\b(tiny_image|LibvirtHost|two_hosts|kill_libvirtd)\b")


@functools.cache
def _group(path: str) -> str:
    """Tests of one file share what its fixtures start, so they stay together. The files with guests are two groups, so that
    at most two of them run side by side: those of the hypervisor driver, and those of a whole cloud. One file of the driver
    is with the latter, so that both groups take equally long."""
    source = (pathlib.Path(__file__).parents[1] / path).read_text()
    if not _GUESTS.search(source):
        return path
    name = pathlib.Path(path).name
    return DRIVER if name.startswith("test_libvirt_") and name != "test_libvirt_interfaces.py" else GUESTS


def _place(path: str) -> int:
    group = _group(path)
    return FIRST.index(group) if group in FIRST else len(FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile``, by group."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):     # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid.partition("::")[0])

    return ByGroup(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long groups first; workers of ``--dist load`` (unit tests) do not mind. What ``make guest-test`` runs only there."""
    if not os.environ.get("NOVA_LITE_LONG_TESTS"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="make guest-test"))
    if hasattr(config, "workerinput") and not any(item.nodeid.startswith("tests/unit/") for item in items):
        items.sort(key=lambda item: _place(item.nodeid.partition("::")[0]))


def pytest_collection_finish() -> None:
    """What was imported stays, and the garbage collector need not look at it again and again: it is most of all objects."""
    gc.collect()
    gc.freeze()


class _AtOnce:
    """Names each test that fails when it fails: a run that is ended from outside tells what it knows."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            why = str(getattr(getattr(report.longrepr, "reprcrash", None), "message", report.longrepr)).strip().splitlines()
            terminal.write_line(f"\n{report.nodeid} failed ({report.when}, {report.duration:.0f} s): {why[0] if why else ''}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_AtOnce(config))
