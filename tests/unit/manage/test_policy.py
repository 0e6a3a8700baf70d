"""nova-lite-policy as an operator runs it."""
from __future__ import annotations

import pathlib
import subprocess

import pytest

from tests.support.process import BIN

SHOW, START = "os_compute_api:servers:show", "os_compute_api:servers:start"


@pytest.fixture
def command(tmp_path):
    def run(*arguments: str, file: str | None = None) -> subprocess.CompletedProcess[str]:
        config = tmp_path / "nova-lite.conf"
        config.write_text(f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
        if file is not None:
            (tmp_path / "policy.yaml").write_text(file)
        return subprocess.run([BIN / "nova-lite-policy", "--config-file", config, *arguments], capture_output=True, text=True,
                              timeout=60, check=False)
    return run


def test_sample_is_the_checked_in_one(command, tmp_path):
    ours = (pathlib.Path(__file__).parents[3] / "etc/nova_lite/policy.yaml").read_text()
    assert command("sample").stdout.strip() == ours.strip()
    assert command("sample", "--output", str(tmp_path / "made.yaml")).returncode == 0
    assert (tmp_path / "made.yaml").read_text() == ours


@pytest.mark.parametrize(("file", "problem"), [
    (f'"{SHOW}": "role:a or"', f"{SHOW}: cannot be parsed, and so denies all callers: role:a or"),
    ('"os_compute_api:servers:shows": "@"', "os_compute_api:servers:shows: no such rule"),
    (f'"{SHOW}": "rule:admin_ap"', f"{SHOW}: refers to the rule admin_ap, which does not exist"),
    (f'"{SHOW}": "not rule:{START}"\n"{START}": "rule:{SHOW}"', f"{SHOW}: refers to itself\n{START}: refers to itself"),
])
def test_check_names_each_mistake(command, file, problem):
    done = command("check", file=file)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (1, problem, "")


def test_check_of_a_good_file(command):
    done = command("check", file=f'"auditor": "role:auditor"\n"{SHOW}": "rule:auditor or rule:project_reader_or_admin"\n'
                                 f'"{START}": "rule:project_member_or_admin"\n')
    assert done.returncode == 0
    assert done.stdout.splitlines() == [f"note: {START} is the default and need not be in the file",
                                        "3 rules of the operator, nothing wrong."]


def test_without_a_file_the_defaults_hold(tmp_path):
    (tmp_path / "nova-lite.conf").write_text("[api]\nauth_strategy = embedded\n")
    done = subprocess.run([BIN / "nova-lite-policy", "--config-file", tmp_path / "nova-lite.conf", "check"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 rules of the operator, nothing wrong.\n", "")


@pytest.mark.parametrize("file", [None, "- a\n- list\n", "a: b: c\n"])
def test_check_of_a_file_that_is_missing_or_none_of_ours(command, file):
    done = command("check", file=file)
    assert done.returncode == 1
    assert done.stderr.startswith("nova-lite-policy: ")
    assert len(done.stderr.splitlines()) == 1
    assert "policy.yaml" in done.stderr


def test_allowed(command):
    mine = command("allowed", "--roles", "member,reader").stdout.splitlines()
    theirs = command("allowed", "--roles", "member,reader", "--target", "project_id=other").stdout.splitlines()
    assert SHOW in mine
    assert START in mine
    assert SHOW not in theirs
    assert "os_compute_api:os-keypairs:show" in theirs      # its user is still the caller
    assert len(command("allowed", "--roles", "admin").stdout.splitlines()) == 202      # all but cross-cell resize


def test_allowed_of_one_rule(command):
    done = command("allowed", "--roles", "reader", "--rule", START)
    assert (done.returncode, done.stdout) == (1, "denied\n")
    done = command("allowed", "--roles", "auditor", "--rule", START, file=f'"{START}": "role:auditor"')
    assert (done.returncode, done.stdout) == (0, f"{START}\n")
    assert "no rule os_compute_api:no" in command("allowed", "--roles", "reader", "--rule", "os_compute_api:no").stderr
