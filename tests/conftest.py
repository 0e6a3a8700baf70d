"""How tests are given to several workers (``-n 3 --dist loadfile --no-loadscope-reorder``)."""
from __future__ import annotations

import functools
import gc
import os
import pathlib
import re
from typing import Any

import pytest

TWO_HOSTS = "tests/integration/test_two_hosts.py"
FIRST = ("guests", TWO_HOSTS, "tests/integration/test_neighbour_faults.py")
"""The long ones, each of one worker; a worker that has done one takes files of the rest."""
# who uses one of these boots real guests, which take all the power that a small machine has
_GUESTS = re.compile(r"\b(tiny_image|LibvirtHost|two_hosts|kill_libvirtd)\b")


@functools.cache
def _group(path: str) -> str:
    """Tests of one file share what its fixtures start, so they stay together. All files with guests are one group, so that
    they do not run side by side. The tests of two hosts are a group of their own, because they wait more than they work."""
    source = (pathlib.Path(__file__).parents[1] / path).read_text()
    return "guests" if path != TWO_HOSTS and _GUESTS.search(source) else path


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
