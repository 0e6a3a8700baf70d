"""Compute hosts prove who they are: keys, signatures, replays; and the daemons of a cloud in which all sign."""
import contextlib
import time

import pytest
import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import exception, manage, rpc
from nova_lite.conductor.rpc_permissions import RULES
from nova_lite.context import SENDER, admin_context
from nova_lite.db import host_keys
from nova_lite.objects import states
from nova_lite.objects.scheduling import RequestSpec
from nova_lite.rpc import sender as rpc_sender
from nova_lite.rpc.conductor import ConductorAPI
from nova_lite.rpc.scheduler import SchedulerAPI
from nova_lite.rpc.sender import Sender
from nova_lite.runtime.rpc_callers import WINDOW, Callers
from nova_lite.runtime.rpc_senders import Senders
from tests.security.test_hostile_compute import ATTACKS, refused_or_empty
from tests.security.world import ADMIN, World
from tests.unit.conductor.cloud import FLAVOR

MASTER = "0123456789abcdef" * 4


class KeyedWorld(World):
    """All sign: h2 has its own key, and that of h1 is not known to it."""

    def __init__(self, make_cloud):
        def keyed(*hosts, **options):
            cloud = make_cloud(rpc__master_key=MASTER, rpc__require_host_keys=True, **options)
            plain = cloud.add_host

            def add_host(name):
                generation = cloud.db.write(host_keys.create, name)
                key = rpc_sender.derive(MASTER, name, generation).hex()
                cloud.conf.set_override("host_key", f"{generation}:{key}", group="rpc")
                return plain(name)
            cloud.add_host = add_host
            for host in hosts:
                cloud.add_host(host)
            return cloud
        super().__init__(keyed)

    def client(self, host, key_of=None, generation=1):
        key = rpc_sender.derive(MASTER, key_of or host, generation)
        return ConductorAPI(self.cloud.transport, Sender(host, key, generation))


@pytest.fixture
def world(make_cloud):
    return KeyedWorld(make_cloud)


class Recorder(ConductorAPI):
    """Sends what somebody else has signed: ``again`` is what was sent last."""

    def _signed(self, context, method, arguments, server):
        self.again = super()._signed(context, method, arguments, server)
        return self.again

    def repeat(self, method, **arguments):
        return self._client.prepare(timeout=10).call(self.again, method, **arguments)


def test_a_cloud_in_which_all_sign_builds_and_deletes(world):
    """The fixture has built and deleted by real daemons; now a stop, too."""
    server = world.cloud.active()
    world.cloud.operate(server, "stop")
    assert world.cloud.wait(server, states.STOPPED).vm_state == states.STOPPED
    world.cloud.sync("h1")
    world.cloud.report("h2")


@pytest.mark.parametrize("sender", [
    Sender("h1"), Sender(None), Sender("h1", b"x" * 32, 1), Sender("h1", rpc_sender.derive(MASTER, "h2", 1), 1),
    Sender("h1", rpc_sender.derive(MASTER, "h1", 2), 2), Sender(None, rpc_sender.derive(MASTER, "h2", 1)),
    Sender("", rpc_sender.derive(MASTER, "", 1), 1)],
    ids=["unsigned", "unsigned-control", "no-key", "another-hosts-key", "no-such-key", "control-with-a-hosts-key", "nameless"])
def test_who_has_not_the_key_of_a_host_is_not_that_host(world, sender, caplog):
    """Each method but those that tell no secret."""
    attacker, found = ConductorAPI(world.cloud.transport, sender), []
    for name, attacks in ATTACKS.items():
        for method, arguments in attacks(world):
            before = world.rows()
            try:
                answer = attacker.call(ADMIN, method, timeout=10, **arguments)
            except exception.HostNotAllowed:
                answer = None
            changed = [table for table, rows in world.rows().items() if rows != before[table]]
            if changed or answer is not None:
                found.append((name, arguments, changed, answer))
    assert not found
    assert f"Compute host {'(' if sender.host is None else sender.host}" in caplog.text


def test_a_host_with_its_own_key_is_given_nothing_of_others(world):
    attacker, found = world.client("h2"), []
    for name, attacks in ATTACKS.items():
        for method, arguments in attacks(world):
            before = world.rows()
            answer = refused_or_empty(attacker, method, arguments)
            changed = {table for table, rows in world.rows().items() if rows != before[table]} - {"rpc_nonces"}
            if changed or world.secrets_in(answer):
                found.append((name, arguments, changed, answer))
    assert not found


def test_a_message_counts_once_on_any_conductor_and_for_its_own_words_only(world):
    honest = Recorder(world.cloud.transport, Sender("h1", rpc_sender.derive(MASTER, "h1", 1), 1))
    assert honest.get_instance(ADMIN, world.theirs)["user_data"] == "TOP-SECRET"
    with pytest.raises(exception.MessageReplayed):
        honest.repeat("get_instance", instance_uuid=world.theirs)
    with pytest.raises(exception.HostNotAllowed, match="signature"):
        honest.repeat("get_instance", instance_uuid=world.mine)
    with pytest.raises(exception.HostNotAllowed, match="signature"):
        honest.repeat("list_server_ports", instance_uuid=world.theirs)
    conf = world.cloud.conf
    other = Callers(conf, RULES, Senders(conf, world.cloud.db))     # of another conductor, which has not heard it
    context = admin_context()
    context.sender = honest.again[SENDER]
    with pytest.raises(exception.MessageReplayed):
        admit(other, context, "get_instance", {"instance_uuid": world.theirs})


def admit(callers, context, method, arguments):
    try:
        callers.admit(context, method, arguments)
    except rpc.messaging.ExpectedException as expected:
        raise expected.exc_info[1] from None


def test_a_report_counts_once(world):
    honest = Recorder(world.cloud.transport, Sender("h1", rpc_sender.derive(MASTER, "h1", 1), 1))
    report = {"host": "h1", "owner": world.owner("h1"), "actions": []}
    honest.heartbeat(ADMIN, report)
    with pytest.raises(exception.MessageReplayed):
        honest.repeat("heartbeat", report=report)


@pytest.mark.parametrize("skew", [-WINDOW - 5, WINDOW + 5])
def test_a_message_of_another_time_is_refused(world, monkeypatch, skew):
    now = time.time()
    sender = Sender("h1", rpc_sender.derive(MASTER, "h1", 1), 1)
    monkeypatch.setattr(rpc_sender.time, "time", lambda: now + skew)
    said = sender.say(ADMIN, "get_instance", {"instance_uuid": world.theirs})
    monkeypatch.undo()
    context = admin_context()
    context.sender = said
    with pytest.raises(exception.HostNotAllowed, match="clocks"):
        admit(world.cloud.conductor.callers, context, "get_instance", {"instance_uuid": world.theirs})


@contextlib.contextmanager
def statements(db):
    """What is said to the database."""
    said = []

    def note(_conn, _cursor, statement, *_rest):
        said.append(statement.split()[0])
    sa.event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield said
    finally:
        sa.event.remove(db.engine, "before_cursor_execute", note)


def test_a_report_costs_no_statement_more_and_a_step_one(world):
    report = {"host": "h1", "owner": world.owner("h1"), "actions": []}
    step = {"action_id": 4711, "host": "h1", "owner": world.owner("h1"), "task_state": None}
    conductor, honest = world.cloud.conductor, world.client("h1")
    honest.heartbeat(ADMIN, report)
    with statements(conductor.db) as signed:
        honest.heartbeat(ADMIN, report)
    with statements(conductor.db) as plain:
        conductor.heartbeat(ADMIN, report)
    assert signed == plain
    with statements(conductor.db) as signed:
        honest.call(ADMIN, "steps", calls=[["claim_action", step]])
    with statements(conductor.db) as plain:
        next(e for e in conductor.endpoints if hasattr(e, "steps"))._endpoint.steps(ADMIN, [["claim_action", step]])
    assert [word for word in signed if word == "INSERT"] == ["INSERT"]
    assert [word for word in signed if word in ("SELECT", "UPDATE")] == [w for w in plain if w in ("SELECT", "UPDATE")]


@pytest.mark.parametrize("sender", [Sender("h2", rpc_sender.derive(MASTER, "h2", 1), 1), Sender(None)])
def test_the_scheduler_hears_control_services_only(world, sender):
    spec = RequestSpec(flavor=FLAVOR, project_id="p")
    before = world.rows()
    with pytest.raises(exception.HostNotAllowed):
        SchedulerAPI(world.cloud.transport, sender).select_destinations(ADMIN, spec, [world.theirs])
    assert world.rows() == before


@pytest.mark.parametrize(("topic", "server"), [(rpc.SCHEDULER, None), (rpc.COMPUTE, "h1")])
def test_options_are_no_method(world, topic, server):
    """A ConfigOpts is callable: who calls it reads the options again, with arguments of his own."""
    client = ConductorAPI(world.cloud.transport, rpc_sender.of_control(world.cloud.conf))
    client.topic = topic
    client._client = client._client.prepare(topic=topic)
    with pytest.raises((exception.HostNotAllowed, rpc.messaging.NoSuchMethod)):
        client.call(ADMIN, "conf", server, timeout=5)


def test_what_was_spent_is_forgotten_when_it_counts_no_more(world, monkeypatch):
    world.client("h1").get_instance(ADMIN, world.theirs)
    assert world.rows()["rpc_nonces"]
    now = time.time()
    monkeypatch.setattr("nova_lite.runtime.rpc_callers.time.time", lambda: now + 4 * WINDOW)
    world.cloud.conductor.callers.forget()
    assert not world.rows()["rpc_nonces"]


def test_keys_are_made_listed_and_revoked_by_the_operator(world, capsys):
    """The old key stays good until it is revoked, so that a host can be given another one while it works."""
    def run(*words):
        conf = nova_conf.load(["--config-file", world.cloud.conf.config_file[0], "host", *words], cli_opts=[
            nova_conf.cfg.SubCommandOpt("area", handler=manage.add_parsers)], **{
            "database__connection": world.cloud.conf.database.connection, "rpc__master_key": MASTER})
        status = conf.area.function(conf, conf.area)
        return status or 0, capsys.readouterr().out
    status, printed = run("key-create", "h1")
    generation, _, key = printed.strip().partition(":")
    assert (status, generation) == (0, "2")
    assert not [secret for secret in (MASTER, key) if secret in repr(world.rows())]
    new = ConductorAPI(world.cloud.transport, Sender("h1", bytes.fromhex(key), 2))
    new.get_instance(ADMIN, world.theirs)
    world.client("h1").get_instance(ADMIN, world.theirs)
    assert run("key-revoke", "h1", "--key", "1")[0] == 0
    with pytest.raises(exception.HostNotAllowed, match="revoked"):
        world.client("h1").get_instance(ADMIN, world.theirs)
    new.get_instance(ADMIN, world.theirs)
    signing = rpc_sender.to_hosts(world.cloud.conf, host_keys.Generations(world.cloud.db))
    assert [set(signing.say(ADMIN, "m", {}, host)["macs"]) for host in ("h1", "h2", "new")] == [{"2", "3"}, {"1", "2"}, {"1"}]
    assert signing.say(ADMIN, "m", {}, None) is None
    assert run("key-revoke", "nobody")[0] == 1
    lines = run("key-list")[1].splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["h1", "1"], ["h1", "2"], ["h2", "1"]]
    assert [len(line.split()) for line in lines[1:]] == [4, 3, 3]


def test_a_metadata_service_on_a_host_knows_that_hosts_servers_only(world):
    assert world.client("h1").instance_metadata(ADMIN, world.theirs)["user_data"] == "TOP-SECRET"
    assert world.client("h2").instance_metadata(ADMIN, world.theirs) is None


@pytest.mark.parametrize(("options", "words"), [
    ({"require_host_keys": True}, "master_key is not"), ({"master_key": "short"}, "less than 32")])
def test_a_control_service_says_at_start_what_is_wrong(options, words):
    conf = nova_conf.load([], config_files=[], **{f"rpc__{name}": value for name, value in options.items()})
    with pytest.raises(exception.ConfigError, match=words):
        rpc_sender.of_control(conf)


@pytest.mark.parametrize(("options", "words"), [
    ({"require_host_keys": True}, "key-create h1"), ({"host_key": "nonsense"}, "not a key of")])
def test_a_host_says_at_start_what_is_wrong(options, words):
    conf = nova_conf.load([], config_files=[], **{f"rpc__{name}": value for name, value in options.items()})
    with pytest.raises(exception.ConfigError, match=words):
        rpc_sender.of_host(conf, "h1")
