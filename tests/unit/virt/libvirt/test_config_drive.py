"""The config drive, read back with isoinfo."""
import os
import shutil
import subprocess

import pytest

from nova_lite import exception
from nova_lite.virt.libvirt import config_drive

pytestmark = pytest.mark.skipif(not shutil.which("genisoimage"), reason="genisoimage is not installed")


def _read(iso, name, *flags):
    return subprocess.run(["isoinfo", "-R", "-i", iso, *flags, "-x", name], check=True, capture_output=True).stdout


def test_it_holds_what_it_was_given_and_nobody_else_reads_it(tmp_path):
    path = tmp_path / "disk.config"
    contents = {"openstack/latest/meta_data.json": b'{"uuid": "x"}', "openstack/latest/user_data": bytes(range(256)),
                "openstack/content/0000": b"", "ec2/latest/meta-data.json": b"{}",
                "openstack/a-rather-long-name-for-a-file.with.dots.json": b"long"}
    config_drive.make(path, contents)
    for name, data in contents.items():
        assert _read(path, "/" + name) == data
    described = subprocess.run(["isoinfo", "-d", "-i", path], check=True, capture_output=True, text=True).stdout
    assert "Volume id: config-2" in described
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["disk.config"]


def test_it_is_made_anew_over_what_a_killed_process_left(tmp_path):
    path = tmp_path / "disk.config"
    (tmp_path / "disk.config.tree").mkdir()
    (tmp_path / "disk.config.tree" / "old").write_text("old")
    (tmp_path / "disk.config.part").write_text("half")
    config_drive.make(path, {"a": b"1"})
    config_drive.make(path, {"a": b"2"})
    assert _read(path, "/a") == b"2"
    assert os.listdir(tmp_path) == ["disk.config"]


@pytest.mark.parametrize("bad", ["../outside", "a/../../outside", "", "/"])
def test_no_path_leads_out_of_it(tmp_path, bad):
    with pytest.raises(ValueError, match="not a path inside"):
        config_drive.make(tmp_path / "disk.config", {bad: b"x"})
    assert os.listdir(tmp_path) == []


def test_xorriso_does_where_genisoimage_is_missing(tmp_path, monkeypatch):
    xorriso = shutil.which("xorriso")
    if not xorriso:
        pytest.skip("xorriso is not installed")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "xorriso").symlink_to(xorriso)
    monkeypatch.setenv("PATH", str(programs))
    config_drive.make(tmp_path / "disk.config", {"openstack/latest/meta_data.json": b"{}"})
    monkeypatch.undo()
    assert _read(tmp_path / "disk.config", "/openstack/latest/meta_data.json") == b"{}"
    described = subprocess.run(["isoinfo", "-d", "-i", tmp_path / "disk.config"], check=True, capture_output=True, text=True)
    assert "Volume id: config-2" in described.stdout


def test_without_either_the_operator_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(exception.ConfigError, match="genisoimage or xorriso"):
        config_drive.make(tmp_path / "disk.config", {})
