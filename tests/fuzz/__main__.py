"""schemathesis on the whole API: as a plain member and as an admin, at the oldest and at the newest microversion.

    python -m tests.fuzz [--minutes 20] [--seed N] [--include PATH_REGEX] [--as demo|admin] [--microversion V]

Starts a standalone cloud with the fake hypervisor in a temporary directory. Looked for: answers of 5xx (but 501), answers that
the OpenAPI document does not allow, requests without a token that are answered, data of another project in an answer to a
member, things of another project that have changed, and requests that leave more than one
line in the log. One body and one query in five holds a value that nobody should send: too deep, too long, a control
character. Prints what schemathesis found; exit status 1 when there is anything.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import random
import sys
import tempfile

from tests.fuzz.run import run_all


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20, help="of all runs together")
    parser.add_argument("--seed", type=int, default=random.randrange(2 ** 31))
    parser.add_argument("--include", default="", help="regular expression: only these paths")
    parser.add_argument("--as", dest="users", action="append", choices=["demo", "admin"])
    parser.add_argument("--microversion", dest="versions", action="append")
    parser.add_argument("--keep", type=pathlib.Path, help="directory for logs and reports; default: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nova-lite-fuzz-") as name:
        found = run_all(arguments.keep or pathlib.Path(name), minutes=arguments.minutes, seed=arguments.seed,
                        include=arguments.include, users=arguments.users or ["demo", "admin"], versions=arguments.versions)
    json.dump(found, sys.stdout, indent=1)
    print()
    return 1 if any(run["failed"] for run in found) else 0


if __name__ == "__main__":
    sys.exit(main())
