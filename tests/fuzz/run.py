"""Starts a cloud and schemathesis against it; see ``__main__``."""
from __future__ import annotations

import collections
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

from nova_lite.api.openstack import microversions
from tests.fuzz.world import Keeper, World, new_mark
from tests.support.client import Compute
from tests.support.cloud import Standalone
from tests.support.tools_venv import install

HOOKS = pathlib.Path(__file__).with_name("hooks.py")
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "ignored_auth", "no_data_of_others")
QUOTAS = ("instances", "cores", "ram", "key_pairs", "server_groups")
# a line of an API: the log's name, then the global id, the id of the request, and who asks
_OF_API = re.compile(r" nova_lite\.(?:api|embedded)\.\S+ \[\S* (req-\S+)")
CONFIG = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "501"]
"""


def run_all(directory: pathlib.Path, minutes: float, seed: int, include: str, users: list[str],
            versions: list[str] | None = None, *more: str) -> list[dict[str, Any]]:
    """All runs on one new cloud; what each found. ``more``: options of schemathesis."""
    directory.mkdir(parents=True, exist_ok=True)
    cloud = Standalone(directory / "cloud", None, "--virt-driver", "fake", "--set", "fake.hosts=2",
                       *(word for name in QUOTAS for word in ("--set", f"quota.{name}=-1")))
    cells = [(user, version) for user in users for version in versions or [microversions.MAX, microversions.MIN]]
    try:
        cloud.start()
        return [run(cloud, directory, user, version, minutes * 60 / len(cells), seed, include, *more)
                for user, version in cells]
    finally:
        if cloud.process.popen is not None:
            cloud.stop()


def run(cloud: Standalone, directory: pathlib.Path, user: str, version: str, seconds: float, seed: int,
        include: str = "", *more: str) -> dict[str, Any]:
    """One run of schemathesis as ``user`` at one microversion; its output goes to stdout and into the directory."""
    name = f"{user}-{version}"
    operator = cloud.client("admin")
    mine = cloud.client("demo") if user == "demo" else operator
    others = operator if user == "demo" else cloud.client("demo")
    world = World(directory, _keeper(cloud, mine), _keeper(cloud, others), operator)
    document = directory / f"openapi-{version}.json"
    document.write_text(operator.request("GET", "/openapi.json", version).text)
    (directory / "schemathesis.toml").write_text(CONFIG)
    failed: list[str] = []
    since = (cloud.directory / "state" / "nova-lite.log").stat().st_size
    with world, open(directory / f"{name}.log", "wb") as log:
        done = subprocess.Popen(_command(cloud, mine, document, seconds, seed, include, *more), stdout=log, stderr=log,
                                cwd=directory, env=_environment(world))
        if done.wait() != 0:
            failed.append(f"schemathesis: see {log.name}")
    failed += log_problems(cloud.directory / "state" / "nova-lite.log", since)
    try:
        world.check()
    except AssertionError as error:
        failed.append(str(error))
    sys.stdout.write((directory / f"{name}.log").read_text(errors="replace") if failed else "")
    return {"user": user, "microversion": version, "failed": failed, "seed": seed, "keeper": world.problems[-3:]}


def log_problems(path: pathlib.Path, since: int = 0) -> list[str]:
    """What no request may write into the log: tracebacks, more than one line of the APIs, control characters."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        stream.seek(since)
        lines = stream.read().split("\n")
    seen: collections.Counter[str] = collections.Counter()
    for line in lines:
        found = _OF_API.search(line)
        if found:
            seen[found[1]] += 1
    problems = [f"a traceback in {path}: {line}" for line in lines if "Traceback (" in line]
    problems += [f"{path} has unprintable characters: {line!r}" for line in lines if not line.replace("\t", "").isprintable()]
    return (problems + [f"{count} lines of log of request {request}" for request, count in seen.items() if count > 1])[:10]


def _keeper(cloud: Standalone, client: Compute) -> Keeper:
    return Keeper(client, f"{cloud.url}/volume/v3", new_mark())


def _command(cloud: Standalone, client: Compute, document: pathlib.Path, seconds: float, seed: int, include: str,
             *more: str) -> list[str]:
    """Phases, checks and time of a run."""
    version = document.stem.partition("-")[2]
    return [install("schemathesis", "st", "schemathesis>=4.30,<5"), "--config-file", str(document.parent / "schemathesis.toml"),
            "run", str(document), "--url", f"{cloud.url}/v2.1", "--workers", "1", "--seed", str(seed), "--max-time",
            str(int(seconds)), "--checks", ",".join(CHECKS), "--header", f"X-Auth-Token:{client.token}", "--header",
            f"OpenStack-API-Version:compute {version}", "--generation-database", "none", "--warnings", "off", "--no-color",
            "--suppress-health-check", "all", "--request-timeout", "60", "--max-redirects", "0",
            *(("--include-path-regex", include) if include else ()), *more]


def _environment(world: World) -> dict[str, str]:
    env = {**os.environ, "SCHEMATHESIS_HOOKS": str(HOOKS), "FUZZ_WORLD": str(world.file)}
    env.pop("NOVA_LITE_CONCURRENCY", None)
    return env
