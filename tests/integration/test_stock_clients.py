"""The stock clients as users have them, against five processes beside the real Keystone, Glance, Neutron and Cinder."""
from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
import yaml

from tests.support import compute_tour, host_tour, neighbour_tour
from tests.support.cloud import healthy
from tests.support.fake_manila import FakeManila
from tests.support.fake_openstack import FakeOpenStack
from tests.support.openstack_cli import Openstack, install
from tests.support.process import BIN, free_port, wait_for

SDK = pathlib.Path(neighbour_tour.__file__).with_name("sdk_cloud_layer.py")
PLAIN, SOFT_DELETING, ROUTERS = "nova-lite-demo", "nova-lite-soft_deleting", "/v2.0/routers"
SLOW, STEP = "slow", 4
"""A host that copies guests in ten steps of so many seconds: long enough for the commands that shall meet them."""


@pytest.fixture(scope="module")
def cloud(neighbours, tmp_path_factory):
    directory = tmp_path_factory.mktemp("cloud")
    services = neighbours.services(directory, fake__hosts=2, fake__state_file=directory / "guests", share__driver="manila")
    try:
        services.start(hosts=2)
        services.client(neighbours.token("admin")).flavor()
        yield services
    finally:
        services.stop()


@pytest.fixture(scope="module")
def soft_deleting_port():
    """Of an API of the same cloud (``soft_deleting``), where what is deleted can be restored."""
    return free_port()


@pytest.fixture(scope="module")
def clouds(cloud, neighbours, soft_deleting_port):
    """A clouds.yaml with our endpoint in place of the catalog's, which is one cloud's at a time."""
    told = {name: {"auth": neighbours.credentials(user), "compute_endpoint_override": endpoint,
                   "region_name": neighbours.facts["region"], "identity_api_version": "3"}
            for name, user, endpoint in (("nova-lite", "admin", cloud.endpoint), (PLAIN, "demo", cloud.endpoint),
                                         (SOFT_DELETING, "demo", f"http://127.0.0.1:{soft_deleting_port}/v2.1"))}
    file = cloud.directory / "clouds.yaml"
    file.write_text(yaml.safe_dump({"clouds": told}))
    return file


@pytest.fixture(scope="module")
def operator(clouds):
    """The command as an admin."""
    client = Openstack(clouds)
    yield client
    client.close()


@pytest.fixture(scope="module")
def openstack(clouds):
    """The command as a plain member."""
    client = Openstack(clouds, PLAIN)
    yield client
    client.close()


@pytest.fixture(scope="module", autouse=True)
def router(neighbours):
    """Floating IPs find their way to the network "private" by it."""
    gateway = {"network_id": neighbours.network_id("public")}
    made = neighbours.call("POST", "neutron", ROUTERS, json={"router": {"external_gateway_info": gateway}})["router"]["id"]
    subnet = neighbours.call("GET", "neutron", "/v2.0/subnets?name=private-subnet")["subnets"][0]["id"]
    neighbours.call("PUT", "neutron", f"{ROUTERS}/{made}/add_router_interface", json={"subnet_id": subnet})
    yield
    neighbours.call("PUT", "neutron", f"{ROUTERS}/{made}/remove_router_interface", json={"subnet_id": subnet})
    neighbours.call("DELETE", "neutron", f"{ROUTERS}/{made}")


@pytest.fixture(scope="module")
def server(openstack):
    with compute_tour.booted(openstack, "--network", "private") as name:
        yield name


def test_server_list_show_set_unset(openstack, server):
    compute_tour.lists_and_changes(openstack, server)


def test_server_states(openstack, operator, server):
    compute_tour.states(openstack, operator, server)


def test_server_events_diagnostics_and_console_log(openstack, operator, server):
    compute_tour.events_and_console(openstack, operator, server)


def test_rebuild_and_rescue(openstack, server):
    compute_tour.new_disks(openstack, server)


def test_shelve(openstack, server):
    compute_tour.shelving(openstack, server)


def test_resize_and_migrate(openstack, operator, server):
    compute_tour.moves(openstack, operator, server)


def test_console_urls(openstack, operator, server):
    compute_tour.consoles(openstack, operator, server)


def test_several_servers(openstack):
    compute_tour.many_at_once(openstack)


def test_flavors(operator):
    compute_tour.flavors(operator)


def test_keypairs(openstack, tmp_path):
    compute_tour.keypairs(openstack, tmp_path)


def test_server_groups(openstack):
    compute_tour.server_groups(openstack)


def test_hosts(operator):
    compute_tour.hosts(operator)


def test_aggregates(operator):
    compute_tour.aggregates(operator)


def test_quotas_limits_and_usage(operator, neighbours):
    compute_tour.quotas(operator, neighbours.credentials("demo")["project_name"])


@pytest.mark.parametrize("part", neighbour_tour.ALL, ids=lambda part: part.__name__)
def test_servers_and_the_neighbours(openstack, server, part):
    part(openstack, server)


def test_boot_from_volume(openstack):
    neighbour_tour.boot_from_volume(openstack)


def test_shares(openstack, neighbours, server):
    manila = FakeManila()
    fake = FakeOpenStack("shared-file-system", manila, versions={"v2": "/v2/"})
    try:
        with neighbours.with_service(fake.type, fake.url):
            share = manila.add()
            neighbour_tour.shares(openstack, server, share)
            assert manila.hosts(share) == []
    finally:
        fake.close()


@pytest.fixture
def soft_deleting(cloud, soft_deleting_port):
    process = cloud.another("api", "soft_deleting", api__port=soft_deleting_port,
                            compute__reclaim_instance_interval=3600).start()
    try:
        wait_for("the second API", lambda: healthy(f"http://127.0.0.1:{soft_deleting_port}"), 120)
        yield SOFT_DELETING
    finally:
        process.kill()


def test_soft_delete_and_restore(openstack, soft_deleting, server):
    host_tour.soft_delete(openstack, soft_deleting, server)


@pytest.fixture(scope="module")
def slow(cloud):
    """A host that takes its time, beside the two others."""
    process = cloud.another("compute", SLOW, host=SLOW, fake__hosts=1, fake__delay=STEP).start()
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture(scope="module")
def pair(operator, slow):
    """Two servers, at first on the slow host."""
    with host_tour.pair_on(operator, SLOW) as servers:
        yield servers


def test_live_migrations_that_an_operator_ends(operator, pair):
    host_tour.live_migrations(operator, pair[0])


def test_evacuation(operator, slow, pair):
    host_tour.evacuation(operator, SLOW, slow)


def test_the_cloud_layer_of_the_sdk(clouds):
    python = pathlib.Path(install()).with_name("python")
    env = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(clouds), "OS_CLOUD": PLAIN}
    done = subprocess.run([str(python), "-W", "ignore", str(SDK), compute_tour.new_name("sdk"), "later"], env=env,
                          capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr


def test_novaclient(cloud, neighbours):
    who = neighbours.credentials("admin")
    env = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    env |= {f"OS_{name.upper()}": value for name, value in who.items()} | {"PYTHONWARNINGS": "ignore"}
    env["OS_ENDPOINT_OVERRIDE"] = cloud.endpoint

    def nova(*arguments: str) -> str:
        done = subprocess.run([BIN / "nova", *arguments], env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"nova {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    name = compute_tour.new_name("nova")
    disk = f"source=image,id={neighbours.image_id()},dest=volume,size=1,shutdown=remove,bootindex=0"
    nova("boot", "--flavor", "m1.nano", "--block-device", disk, "--nic", "none", "--poll", name)
    try:
        assert name in nova("list")
        assert "ACTIVE" in nova("show", name)
        assert nova("server-migration-list", name)
    finally:
        nova("delete", name)
