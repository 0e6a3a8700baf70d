"""Who holds one compute host's credentials tries each method of another compute host: a host hears the control plane only."""
import pytest

from nova_lite import exception, rpc
from nova_lite.compute.api import queries
from nova_lite.compute.rpc_permissions import RULES
from nova_lite.console.tokens import Tokens
from nova_lite.db import console_auth_tokens, host_keys, moves
from nova_lite.objects import action as objects
from nova_lite.objects import states
from nova_lite.objects.console import ConsoleAuthToken, digest
from nova_lite.rpc import sender as rpc_sender
from nova_lite.rpc.compute import ComputeAPI
from nova_lite.rpc.sender import UNKNOWN, Sender, ToHosts
from tests.security.test_host_keys import MASTER, KeyedWorld
from tests.security.test_hostile_compute import public_methods
from tests.security.world import ADMIN, World

FACTS = {"hypervisor_type": "fake", "hypervisor_version": 1, "power_state": 1}


def calls(world):
    """method -> arguments about the victim's server."""
    server = {"instance_uuid": world.theirs}
    record = {"instance": world.cloud.get(world.theirs).to_primitive()}
    return {
        "wake": {"action_ids": [world.wait_for("h1", world.theirs, "stop")]},
        "look_for_left_behind": {"instance_uuids": [world.theirs]}, "refresh_security_rules": {},
        "cache_images": {"image_ids": ["an image"]},
        "external_instance_event": {"events": [{"server_uuid": world.theirs, "name": "network-vif-deleted",
                                                "status": "completed", "tag": "p"}]},
        "get_console_output": {**server, "length": None}, "get_diagnostics": server, "check_admin_password": server,
        "get_console": {**server, "protocol": "vnc", "console_type": "novnc"},
        "validate_console": {**server, "console_type": "novnc", "port": 6969},
        "quiesce": server, "unquiesce": server, "live_migration_facts": server,
        "live_migration_refused": {**server, "token": "t"}, "waits_for_rest": server,
        "check_live_migration": {**server, "there": FACTS, "block": None, "over_commit": False},
        "offer_for_live_migration": {**server, "plan": {}},
        "leave": {**server, "action_id": world.their_move, "owner": world.owner("h1"), "move": "m"},
        "holds": {**record, "move": "m"}, "arrived": record,
    }


class Forged:
    """What an attacker can make of the keys that he has."""

    def __init__(self, keys, to=None):
        self.keys, self.to = keys, to

    def say(self, context, method, arguments, to):
        said = {"host": None, "to": self.to or to, "time": rpc_sender.time.time(), "nonce": "n"}
        return {**said, "macs": {str(number): rpc_sender.mac_to(key, said, context, method, arguments)
                                 for number, key in self.keys.items()}}


H1, H2 = (rpc_sender.derive(MASTER, host, 1) for host in ("h1", "h2"))
ATTACKERS = {
    "its-own-key": Sender("h2", H2, 1), "a-bogus-key": Sender("h2", b"x" * 32, 1), "no-key": Sender("h2"),
    "as-control-unsigned": UNKNOWN, "as-control-with-its-own-key": Sender(None, H2, 0),
    "as-h1-with-its-own-key": Sender("h1", H2, 1),
    "as-control-to-h1-with-its-own-key": Forged({1: H2}), "as-control-to-itself": Forged({1: H2}, to="h2"),
    "another-master": ToHosts("another master key" * 4, lambda host: [1, 2]), "no-signature": Forged({}),
    "another-generation": Forged({2: rpc_sender.derive(MASTER, "h1", 2)}),
    "what-h1-told-the-conductor": Sender("h1", H1, 1),
}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    yield from _world(KeyedWorld, tmp_path_factory)


@pytest.fixture(scope="module")
def unkeyed(tmp_path_factory):
    yield from _world(World, tmp_path_factory)


def _world(kind, tmp_path_factory):
    from tests.unit.conductor.cloud import Cloud
    made = []

    def make(*hosts, **options):
        made.append(Cloud(tmp_path_factory.mktemp("cloud"), **options))
        for host in hosts:
            made[0].add_host(host)
        return made[0]
    try:
        yield kind(make)
    finally:
        for cloud in made:
            cloud.close()


def heard(world, sender, method, arguments):
    """Whether h1 has taken a message."""
    client = ComputeAPI(world.cloud.transport, sender)
    try:
        client.call(ADMIN, method, server="h1", timeout=10, **arguments)
    except exception.HostNotAllowed:
        return False
    except exception.NovaLiteError:
        pass
    return True


def test_every_method_is_in_the_tables(unkeyed):
    assert public_methods(unkeyed.cloud.hosts["h1"]) == set(RULES) == set(calls(unkeyed))


@pytest.mark.parametrize("attacker", ATTACKERS.values(), ids=ATTACKERS)
def test_a_host_hears_no_other_host(keyed, attacker, caplog):
    before = keyed.rows()
    found = [method for method, arguments in calls(keyed).items() if heard(keyed, attacker, method, arguments)]
    assert not found
    assert keyed.rows()["instances"] == before["instances"]
    assert "refused a call of get_console" in caplog.text


@pytest.mark.parametrize("attacker", ["no-key", "its-own-key", "as-h1-with-its-own-key"])
def test_without_keys_a_host_hears_nobody_that_says_it_is_a_host(unkeyed, attacker):
    said = calls(unkeyed)
    assert not [method for method, arguments in said.items() if heard(unkeyed, ATTACKERS[attacker], method, arguments)]


def test_without_keys_the_control_plane_of_an_older_release_is_heard(unkeyed):
    assert ComputeAPI(unkeyed.cloud.transport).get_diagnostics(ADMIN, "h1", unkeyed.theirs)["state"] == "running"


def test_while_keys_are_not_required_an_older_release_is_heard_and_a_wrong_signature_is_not(keyed, monkeypatch):
    monkeypatch.setattr(keyed.cloud.hosts["h1"].callers, "_required", False)
    assert ComputeAPI(keyed.cloud.transport).get_diagnostics(ADMIN, "h1", keyed.theirs)["state"] == "running"
    assert not heard(keyed, Forged({1: H2}), "get_diagnostics", {"instance_uuid": keyed.theirs})


@pytest.mark.parametrize("name", ["conf", "conductor", "no_such_method"])
def test_what_can_be_called_by_accident_is_refused(keyed, name):
    with pytest.raises((exception.HostNotAllowed, rpc.messaging.NoSuchMethod)):
        keyed.cloud.conductor.compute.call(ADMIN, name, server="h1", timeout=10)


class Recorder(ComputeAPI):
    """``again`` is what was sent last."""

    def _signed(self, context, method, arguments, server):
        self.again = super()._signed(context, method, arguments, server)
        return self.again

    def repeat(self, method, server="h1", **changed):
        context = {**self.again, **changed.pop("context", {})}
        return self._client.prepare(timeout=10, server=server).call(context, method, **changed)


@pytest.fixture
def control(keyed):
    return Recorder(keyed.cloud.transport, rpc_sender.to_hosts(keyed.cloud.conf, host_keys.Generations(keyed.cloud.db)))


def test_a_message_to_a_host_counts_once_and_for_its_own_words_only(keyed, control):
    asked = {"instance_uuid": keyed.theirs, "length": 1}
    assert control.get_console_output(ADMIN, "h1", keyed.theirs, 1).endswith("login:")
    with pytest.raises(exception.MessageReplayed):
        control.repeat("get_console_output", **asked)
    for method, changes in (("get_console_output", {**asked, "length": 2}),
                            ("get_diagnostics", {"instance_uuid": keyed.theirs}),
                            ("get_console_output", {**asked, "context": {"project_id": "another"}}),
                            ("get_console_output", {**asked, "context": {"roles": []}})):
        with pytest.raises(exception.HostNotAllowed, match="signature"):
            control.repeat(method, **changes)
    with pytest.raises(exception.HostNotAllowed, match="signature"):
        control.repeat("get_console_output", server="h2", **asked)


@pytest.mark.parametrize("skew", [-3600, 3600])
def test_a_message_of_another_time_is_refused(keyed, control, monkeypatch, skew):
    now = rpc_sender.time.time()
    monkeypatch.setattr(rpc_sender.time, "time", lambda: now + skew)
    said = control._sender.say(ADMIN, "get_diagnostics", {"instance_uuid": keyed.theirs}, "h1")
    monkeypatch.undo()
    control.again = ADMIN.to_rpc() | {rpc.SENDER: said}
    with pytest.raises(exception.HostNotAllowed, match="clocks"):
        control.repeat("get_diagnostics", instance_uuid=keyed.theirs)


def test_a_host_with_a_new_key_hears_at_once_who_does_not_know_of_it_yet(make_cloud):
    world = KeyedWorld(make_cloud)
    cloud = world.cloud
    cloud.conductor.compute.get_diagnostics(ADMIN, "h2", world.mine)
    cloud.end_host("h2")
    cloud.add_host("h2")        # which has got key 2
    assert cloud.conf.rpc.host_key.startswith("2:")
    cloud.conductor.compute.call(ADMIN, "refresh_security_rules", server="h2", timeout=10)
    with pytest.raises(exception.HostNotAllowed, match="signature"):        # by the old key alone
        ComputeAPI(cloud.transport, Forged({1: H2})).call(ADMIN, "refresh_security_rules", server="h2", timeout=10)


def test_servers_move_where_all_sign(make_cloud):
    """Cold and live, and back: the hosts ask each other by way of the conductor."""
    cloud = KeyedWorld(make_cloud).cloud
    server = cloud.active()
    old = cloud.get(server).host
    cloud.wait_action(cloud.operate(server, "live_migrate", {"block_migration": None}), objects.DONE)
    new = cloud.get(server).host
    assert new != old
    cloud.wait_action(cloud.operate(server, "migrate"), objects.DONE)
    assert cloud.get(server).host == old
    with cloud.db.read() as conn:
        move = moves.find(conn, server)
    cloud.wait_action(cloud.operate(server, "revertResize", {"migration_id": move.id}, host=old), objects.DONE)
    assert cloud.wait(server, states.ACTIVE).host == new


def test_a_user_of_an_api_with_another_master_key_reads_503_without_names(keyed, caplog):
    rpcapi = ComputeAPI(keyed.cloud.transport, ATTACKERS["another-master"])
    with pytest.raises(exception.ServiceUnavailable) as caught:
        queries.ask("Console", rpcapi.get_console_output, ADMIN, "h1", keyed.theirs, 1)
    assert caught.value.public == "Console is unavailable: its compute host refuses the message of the API"
    assert "its signature is wrong for the key of h1" in caplog.text


def test_a_console_proxy_signs_without_a_database(keyed):
    token = ConsoleAuthToken(keyed.theirs, "h1", "novnc", "host", 6969)
    keyed.cloud.db.write(console_auth_tokens.create, digest("good"), token, 600)
    assert Tokens(keyed.cloud.conf, keyed.cloud.transport, ["novnc"]).resolve("good") == token
