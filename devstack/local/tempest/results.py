"""What a run of Tempest gave: as lines, as a table per module, beside what is expected.

usage: results.py read                                 subunit on stdin -> "status<TAB>seconds<TAB>test<TAB>reason" a line
       results.py compare RESULTS EXPECTED [--whole]   exit status 1 when a test does not end as EXPECTED says
       results.py table RESULTS                        passed, failed, skipped per module
       results.py list RESULTS                         how each test ended

EXPECTED names only tests that do not pass: "status<TAB>test<TAB>reason" a line, # begins a comment. With --whole, tests that
EXPECTED names and that did not run are told of, too.
"""
from __future__ import annotations

import collections
import pathlib
import re
import sys
from typing import Any, NamedTuple

ORDER = ("success", "fail", "skip")
WORDS = {"success": "passed", "fail": "FAILED", "skip": "skipped"}


class Result(NamedTuple):
    """How one test ended."""

    status: str
    seconds: float
    test: str
    reason: str


def read() -> None:
    """Print the results that stand in the stream."""
    import subunit
    import testtools

    results: list[Result] = []
    stream = testtools.StreamToDict(lambda test: results.append(_result(test)))
    stream.startTestRun()
    subunit.ByteStreamToStreamResult(sys.stdin.buffer, non_subunit_name="stdout").run(stream)
    stream.stopTestRun()
    for one in sorted(results, key=lambda r: r.test):
        if one.test != "stdout":
            print(f"{one.status}\t{one.seconds:.1f}\t{one.test}\t{one.reason}")


def _result(test: dict[str, Any]) -> Result:
    begin, end = test["timestamps"]
    seconds = (end - begin).total_seconds() if begin and end else 0.0
    reason = ""
    for name, detail in test["details"].items():
        lines = [line for line in detail.as_text().splitlines() if line.strip()]
        if lines and (name == "reason" or (name.startswith("traceback") and not reason)):
            reason = (lines[0] if name == "reason" else lines[-1]).strip()
    # the name without attributes; a class's set-up is named by its class
    return Result(test["status"], seconds, re.sub(r"\[.*\]$", "", test["id"]),
                  reason[:300] if test["status"] in ("fail", "skip") else "")


def load(path: str) -> list[Result]:
    """The lines that ``read`` printed."""
    rows = (line.split("\t") for line in pathlib.Path(path).read_text().splitlines())
    return [Result(status, float(seconds), test, reason) for status, seconds, test, reason in rows]


def module(test: str) -> str:
    """tempest.api.compute.servers.test_servers.ServersTestJSON.test_x -> servers/test_servers; scenario/test_x likewise."""
    name = re.search(r"(?:(serial)_tests\.)?(?:api\.compute\.|(?=scenario\.))(.*?test_\w+)\.", f"{test}.".replace(")", "."))
    return "/".join(filter(None, (name[1], name[2].replace(".", "/")))) if name else test


def table(results: list[Result]) -> None:
    """Passed, failed and skipped tests of each module; a skipped class counts as one."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for one in results:
        counts[module(one.test)][one.status] += 1
    print(f"{'':52} passed  failed skipped")
    for name in sorted(counts):
        print(f"{name:52}" + "".join(f"{counts[name][status]:8}" for status in ORDER))
    total = collections.Counter(one.status for one in results)
    print(f"{'all':52}" + "".join(f"{total[status]:8}" for status in ORDER))


def each(results: list[Result]) -> None:
    """One line a test."""
    for one in results:
        print(f"{WORDS[one.status]:8}{one.seconds:6.0f} s  {one.test}{one.reason and ': '}{one.reason}")


def compare(results: list[Result], expected_path: str, whole: bool) -> bool:
    """Print the table and what is not as expected; whether all is."""
    expected: dict[str, str] = {}
    for line in pathlib.Path(expected_path).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            status, test = line.split("\t")[:2]
            expected[test] = status
    table(results)
    wrong = [f"{one.test}: {one.status}, not {expected.get(one.test, 'success')}: {one.reason}"
             for one in results if one.status != expected.get(one.test, "success")]
    if whole:
        wrong += [f"{test}: did not run" for test in sorted(set(expected) - {one.test for one in results})]
    if not results:
        wrong.append("no test ran")
    print("\n".join(wrong) or "All ended as expected.")
    return not wrong


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["read"]:
            read()
        case ["compare", path, expectations, *options]:
            sys.exit(not compare(load(path), expectations, "--whole" in options))
        case ["table", path]:
            table(load(path))
        case ["list", path]:
            each(load(path))
        case _:
            sys.exit(__doc__)
