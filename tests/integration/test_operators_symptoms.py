"""The symptoms of docs/operators.md on five services with a second host: the commands say what the document says they do."""
from __future__ import annotations

import re
import signal
import subprocess

import pytest

from tests.support.cloud import Services
from tests.support.engines import MariaDB, RabbitMQ
from tests.support.process import BIN, wait_for

DOWN = "12"         # seconds of silence


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    made = MariaDB(tmp_path_factory.mktemp("mariadb"))
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture(scope="module")
def cloud(database, tmp_path_factory):
    broker = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    directory = tmp_path_factory.mktemp("cloud")
    try:
        services = Services(directory, broker.start().url, database.new_database(), fake__vcpus=5,
                            fake__state_file=directory / "node.guests", compute__report_interval=1,
                            compute__service_down_time=DOWN, conductor__sweep_interval=1)
        services.second = services.another("compute", "second", host="second", fake__state_file=directory / "second.guests")
        services.everything = [*services.processes.values(), services.second]
        try:
            services.start()
            services.second.start()
            services.wait_ready(hosts=2)
            services.add_image()
            yield services
        finally:
            for process in services.everything:
                process.send(signal.SIGKILL)
    finally:
        broker.close()


@pytest.fixture(scope="module")
def client(cloud):
    return cloud.client()


@pytest.fixture(autouse=True)
def all_run(cloud):
    """Start what a test has stopped, and wait until the next test may use each host."""
    yield
    for process in cloud.everything:
        if not process.alive():
            process.start()
    wait_for("all services to be up", lambda: "down" not in states(cloud).values(), 60, 0.5)


def boot(client, count=1, **values):
    servers = [client.boot(**values)["id"] for _ in range(count)]
    for server in servers:
        client.wait(server, "ACTIVE", 120)
    return servers


def drain(cloud, *arguments):
    done = subprocess.run([BIN / "nova-lite-manage", "--config-file", cloud.config, "host", "drain", *arguments],
                          capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout


def action(cloud, server, *arguments):
    """The columns of its line in the list, as far as the attempts."""
    lines = cloud.manage("action", "list", *arguments).splitlines()
    found = [re.split(r" {2,}", line.strip(), maxsplit=9) for line in lines if server in line]
    return dict(zip(re.split(r" {2,}", lines[0].strip()), found[0], strict=False)) if found else {}


def states(cloud):
    """up or down, by binary and host."""
    rows = [line.split() for line in cloud.manage("service", "list").splitlines()[1:]]
    return {(row[0], row[1]): row[3] for row in rows}


def test_a_build_waits_for_a_scheduler(cloud, client):
    scheduler = cloud.processes["scheduler"]
    scheduler.kill(signal.SIGTERM)
    server = client.boot()["id"]
    found = wait_for("a second attempt", lambda: (row := action(cloud, server)).get("attempts", "0") > "1"
                     and row["holder"].startswith("node:") and row, 90, 1)
    assert found["step"] == "conductor: scheduling"
    assert "scheduler" in found["last error"]
    scheduler.start()
    client.wait(server, "ACTIVE", 120)
    assert action(cloud, server) == {}
    client.delete(server)


def test_a_build_waits_for_a_conductor(cloud, client):
    conductor = cloud.processes["conductor"]
    conductor.kill(signal.SIGTERM)
    server = client.boot()["id"]
    found = action(cloud, server)
    assert (found["step"], found["holder"], found["attempts"]) == ("conductor: scheduling", "nobody yet", "0")
    # hosts report through the conductor
    wait_for("all hosts to be down", lambda: {states(cloud)["nova-compute", host] for host in ("node", "second")} == {"down"},
             60, 1)
    conductor.start()
    client.wait(server, "ACTIVE", 120)
    wait_for("the hosts to be up", lambda: "down" not in states(cloud).values(), 60, 1)
    client.delete(server)


def test_a_host_that_is_down_and_what_waits_for_it(cloud, client):
    server, = boot(client, host="second")
    cloud.second.kill(signal.SIGKILL)
    client.action(server, "os-stop")
    wait_for("the host to be down", lambda: states(cloud)["nova-compute", "second"] == "down", 60, 1)
    assert states(cloud)["nova-compute", "node"] == "up"
    assert action(cloud, server, "--host", "second", "--older-than", "1")["step"].startswith("compute: powering-off")
    assert action(cloud, server, "--host", "node") == {}
    assert action(cloud, server, "--older-than", "6000") == {}
    cloud.second.start()
    client.wait(server, "SHUTOFF", 120)
    client.delete(server)
    client.wait_gone(server)


def test_a_host_with_ten_servers_one_of_which_cannot_go_is_emptied(cloud, client):
    group = client.ok("POST", "/os-server-groups", json={"server_group": {"name": "apart", "policy": "anti-affinity"}})[
        "server_group"]["id"]
    apart = {"os:scheduler_hints": {"group": group}}
    servers = boot(client, 9, host="node")
    member, other = (client.ok("POST", "/servers", json={
        "server": {"name": f"on-{host}", "flavorRef": client.flavor(), "imageRef": client.image(), "networks": "none",
                   "host": host}, **apart})["server"]["id"] for host in ("node", "second"))
    for server in (member, other):
        client.wait(server, "ACTIVE", 120)
    client.action(servers[0], "os-stop")
    client.wait(servers[0], "SHUTOFF")
    client.action(servers[1], "lock")

    status, said = drain(cloud, "node")
    assert status == 1
    assert said.startswith("node is disabled, so nothing new comes. 10 server(s) to move, 2 at once.\n")
    assert len(re.findall(r"^\d+/10 .*: moved to second, live \(\d+ s\)$", said, re.MULTILINE)) == 8
    assert len(re.findall(rf"^\d+/10 {servers[0]} .*: moved to second, cold \(\d+ s\)$", said, re.MULTILINE)) == 1
    stays = re.findall(rf"^\d+/10 {member} on-node: stays: (.*)$", said, re.MULTILINE)
    assert "ServerGroupAntiAffinityFilter left 0" in stays[0]
    assert said.endswith("node is not empty: 1 left. Run this again to go on.\n")
    assert client.server(member)["status"] == "ACTIVE"

    client.delete(other)        # what kept it there
    client.wait_gone(other)
    status, said = drain(cloud, "node")
    assert status == 0
    assert f"1/1 {member} on-node: moved to second, live" in said
    assert {client.server(server)["OS-EXT-SRV-ATTR:host"] for server in (*servers, member)} == {"second"}
    service = next(s for s in client.ok("GET", "/os-services")["services"]
                   if (s["binary"], s["host"]) == ("nova-compute", "node"))
    assert (service["status"], service["disabled_reason"]) == ("disabled", "emptied by nova-lite-manage host drain")
    client.ok("PUT", f"/os-services/{service['id']}", json={"status": "enabled"})
    for server in (*servers, member):
        client.delete(server)
        client.wait_gone(server)


def test_overcommit_counts_from_the_restart_of_the_daemon(cloud, client):
    flavor = client.ok("POST", "/flavors", json={"flavor": {"name": "wide", "ram": 64, "vcpus": 5, "disk": 1}})["flavor"]["id"]
    servers = boot(client, 4, flavor=flavor, host="node")       # 5 CPUs, promised 4 times
    servers.append(client.boot(flavor=flavor, host="node")["id"])
    assert "CoreFilter left 0" in client.wait(servers[-1], "ERROR")["fault"]["message"]
    cloud.config.write_text(cloud.config.read_text().replace("[compute]\n", "[compute]\ncpu_allocation_ratio = 5\n"))
    cloud.restart("compute", signal.SIGTERM)

    def boots():
        servers.append(client.boot(flavor=flavor, host="node")["id"])
        wait_for("an end", lambda: client.server(servers[-1])["status"] != "BUILD")
        return client.server(servers[-1])["status"] == "ACTIVE"
    wait_for("room", boots, 60, 1)
    for server in servers:
        client.delete(server)
        client.wait_gone(server)


def test_a_backup_is_loaded(cloud, client, database):
    stopped, deleted = boot(client, 2, host="node")
    name = "nova_lite_1"
    access = ["--no-defaults", "-uroot", f"--socket={database.socket}"]
    copy = subprocess.run(["mariadb-dump", *access, "--single-transaction", name], check=True, capture_output=True).stdout
    client.action(stopped, "os-stop")
    client.wait(stopped, "SHUTOFF")
    client.delete(deleted)
    client.wait_gone(deleted)
    unknown, = boot(client, host="node")
    for process in cloud.everything:
        process.kill(signal.SIGTERM)
    subprocess.run(["mariadb", *access, name], input=copy, check=True)
    cloud.manage("db", "sync")
    log = cloud.processes["compute"].log
    began = len(log.read_text())
    for process in cloud.everything:
        process.start()
    cloud.wait_ready(hosts=2)
    client.wait(stopped, "SHUTOFF", 120)
    for said, server in (("guests of no server", unknown), ("servers whose guests are not there", deleted)):
        wait_for(said, lambda said=said, server=server: re.search(f"{said}.*{server}", log.read_text()[began:]), 60)
    client.delete(deleted)
    client.wait_gone(deleted)


def test_deleted_servers_are_purged_when_a_conductor_starts(cloud, client, database):
    server, = boot(client)
    client.delete(server)
    client.wait_gone(server)

    def rows():
        return database_rows(database, f"SELECT count(*) FROM instances WHERE uuid = '{server}'")
    assert rows() == 1
    cloud.config.write_text(cloud.config.read_text().replace("[database]\n", "[database]\npurge_deleted_after = 1\n"))
    cloud.processes["conductor"].kill(signal.SIGTERM)
    # a conductor that an earlier test killed owns the task for the rest of its hour
    assert database_rows(database, "UPDATE periodic_tasks SET lease_until = '2000-01-01' WHERE name = 'purge'; "
                                   "SELECT count(*) FROM periodic_tasks WHERE name = 'purge'") == 1
    cloud.processes["conductor"].start()
    wait_for("the row to go", lambda: rows() == 0, 60)


def database_rows(database, statement):
    return int(subprocess.run(["mariadb", "--no-defaults", "-uroot", f"--socket={database.socket}", "-BNe", statement,
                               "nova_lite_1"], check=True, capture_output=True, text=True).stdout)
