"""Files that lie beside the code and must follow it."""
from __future__ import annotations

import configparser
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from nova_lite import conf as conf_module
from tests.support.process import BIN

ROOT = pathlib.Path(__file__).parents[2]
UNITS = sorted((ROOT / "etc/nova_lite/systemd").glob("*.service"))


def test_sample_configuration_is_current(tmp_path):
    """``make genconfig`` writes it again."""
    subprocess.run([BIN / "oslo-config-generator", "--config-file", "etc/nova_lite/config-generator.conf", "--output-file",
                    tmp_path / "sample"], cwd=ROOT, check=True)
    assert (ROOT / "etc/nova_lite/nova-lite.conf").read_text() == (tmp_path / "sample").read_text()


def test_sample_configuration_is_valid():
    conf = conf_module.load(["--config-file", str(ROOT / "etc/nova_lite/nova-lite.conf")])
    assert conf.api.port == 8774


def test_options_stay_few():
    assert sum(len(module.OPTS) for module in conf_module.GROUPS) <= 141


def test_a_guest_image_that_cannot_be_built_is_told_in_one_line(tmp_path):
    """For `make run`, which needs it before anything else."""
    (tmp_path / "debs").write_text("where the directory of the packages should be")
    done = subprocess.run([sys.executable, "-m", "tests.guest"], cwd=ROOT, env={**os.environ, "NOVA_LITE_CACHE": str(tmp_path)},
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"{tmp_path}/debs" in done.stderr


def test_nobody_is_told_to_install_us_from_an_index():
    """The name is not ours on PyPI: who wants an extra installs it in a clone."""
    texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "nova_lite").rglob("*.py")]
    assert [path for path in texts if "nova-lite[" in path.read_text()] == []


def _service(unit: pathlib.Path) -> configparser.SectionProxy:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str        # type: ignore[assignment]
    parsed.read(unit)
    return parsed["Service"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda p: p.stem)
def test_units_start_our_scripts(unit):
    service = _service(unit)
    script = service["ExecStart"].rpartition("/")[2]
    assert script == unit.stem
    assert (BIN / script).exists()
    assert service["Type"] == "notify"


def test_units_of_different_users_share_no_directory():
    """systemd gives such a directory, with all that is in it, to the user of whichever service starts."""
    owners: dict[str, set[str]] = {}
    for unit in UNITS:
        service = _service(unit)
        for key in ("StateDirectory", "LogsDirectory"):
            for name in service.get(key, "").split():
                owners.setdefault(f"{key} {name}", set()).add(service.get("User", "root"))
    assert owners == {"StateDirectory nova_lite/identity": {"nova-lite"}, "StateDirectory nova_lite/images": {"nova-lite"},
                      "StateDirectory nova_lite/volumes": {"nova-lite"}, "LogsDirectory nova_lite": {"nova-lite"}}


def test_the_unit_of_the_compute_host_lets_it_load_its_kernel_module():
    [unit] = [u for u in UNITS if u.stem == "nova-lite-compute"]
    assert _service(unit).get("ProtectKernelModules", "no") == "no"


def test_each_service_has_a_unit():
    assert sorted(u.stem for u in UNITS) == ["nova-lite-api", "nova-lite-api-metadata", "nova-lite-compute",
                                             "nova-lite-conductor", "nova-lite-novncproxy",
                                             "nova-lite-scheduler", "nova-lite-serialproxy",
                                             "nova-lite-spicehtml5proxy"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path):
    for unit in UNITS:
        text = unit.read_text().replace("/usr/local/bin/", f"{BIN}/")
        (tmp_path / unit.name).write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", *map(str, sorted(tmp_path.glob("*.service")))], capture_output=True,
                          text=True, check=False)
    assert "nova-lite" not in done.stderr, done.stderr
