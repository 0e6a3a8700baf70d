"""What the expressions of users cost, on each database: a filter of a list keeps nobody waiting, and never ends in a 500."""
from __future__ import annotations

import random
import re
import time
from types import SimpleNamespace
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from nova_lite.db import core, instance_list, patterns
from nova_lite.db import models as tables
from tests.support.engines import MariaDB, PostgreSQL
from tests.unit.api.compute import conftest
from tests.unit.db.databases import make_tables

HOSTILE = ["[a]*[a]*[a]*b$", "(((.*)*)*)*!", ".*.*.*.*!", "(a|a)*b", "(a|aa)+$b", "a{9}b{9}c{9}", "((a?){30}){30}b",
           "(.*.*.*.*){60}b", "(?:a?){100}a{100}b", "([ab]*a[ab]{20}c)*", "^(a+)+$", "(x+x+)+y", r"(\w+\s?)*!"]
ODD = [r"(a)\1", "(?=a)a", "(?i)A", "(?P<n>a)", r"\pL", r"[[:alpha:]]", r"\x00", r"\d+", "a{1001}", "(.{1,200}){1,200}", "é+",
       "(" * 100 + "a" + ")" * 100, "[a", "a)", "*", "a**", r"\Qa", "(?#x)a", "\ud800+", "%", "_", "(?<=b)a",
       "(?>a)", r"\1", "(*MARK)a"]
OUR_WORDS = re.compile(r"RE2$|the database cannot search by this regular expression$|more than \d seconds: ask for less$"
                       r"|takes the database too many steps for one of the names$|NUL character$|does not match|not UTF-8")
FILTERS = ["name", "hostname", "description", "reservation_id", "key_name", "availability_zone", "access_ip_v4", "ip", "ip6"]
WHERE = {"name": "display_name", "hostname": "hostname"}


@pytest.fixture(params=["sqlite", MariaDB, PostgreSQL], ids=["sqlite", "mariadb", "postgresql"], scope="module")
def server(request, tmp_path_factory):
    """A database server that can make empty databases."""
    directory = tmp_path_factory.mktemp("patterns")
    if request.param == "sqlite":
        yield SimpleNamespace(new_database=lambda: f"sqlite:///{directory}/{random.randbytes(8).hex()}")
        return
    made = request.param(directory)
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def cloud(server, tmp_path):
    """The API on each kind of database, with 27 servers whose names are as long as names can be."""
    url = make_tables(server.new_database())
    (tmp_path / "nova-lite.conf").write_text("[DEFAULT]\ntransport_url = in-process://\n")
    conf = conftest.nova_conf.load([], config_files=[str(tmp_path / "nova-lite.conf")], state_path=str(tmp_path),
                                   database__connection=url, network__driver="bridge", image__driver="local")
    made = conftest.Cloud(conftest.app.make_services(conf, policy=conftest.default_policy()))
    for number in range(27):
        text = "a" * 255 if number % 2 else "".join(random.Random(number).choices("ab", k=255))
        made.add_server(display_name=text, display_description=text, hostname=text, reservation_id=text[:32], key_name=text,
                        availability_zone=text, network_info=[{"fixed_ips": [
                            {"version": 6, "address": "2001:0db8:aaaa:aaaa:aaaa:aaaa:aaaa:aaaa"},
                            {"version": 4, "address": "192.168.111.111"}]}])
    yield made
    made.db.dispose()


def test_no_expression_keeps_the_cloud_busy_and_none_is_an_error_of_ours(cloud):
    admin = cloud.client("admin", "project1", ("admin",), "2.96")
    for pattern in HOSTILE + ODD:
        for name in FILTERS if pattern == HOSTILE[0] else ("name", "ip6"):
            begin = time.monotonic()
            path = f"/servers?{name}={quote(pattern.encode('utf-8', 'surrogatepass'))}&changes-since=2020-01-01T00:00:00Z"
            answer = admin.call("GET", path)
            assert answer.status_code in (200, 400), (name, pattern, answer.text)
            assert time.monotonic() - begin < 1 + instance_list.PATTERN_SECONDS, (name, pattern, answer.text)
            if cloud.db.engine.dialect.name == "sqlite":
                assert time.monotonic() - begin < 1, (name, pattern, answer.text)
            if answer.status_code == 400:
                message = answer.json_body["badRequest"]["message"]
                assert len(message) < 1000, pattern
                assert OUR_WORDS.search(message), message


WIDE = "[!-\uffff]"         # ignoring case, Python's engine takes 4 ms for each


def test_a_value_that_is_too_long_is_not_compiled(cloud):
    """Whatever is wrong with it: the schema looks at the length first."""
    member, before = cloud.client(version="2.96"), patterns.compile_linear.cache_info().misses
    for name in FILTERS:
        for value in ("(?i)" + WIDE * 4000, "(?i)" + WIDE * 200, "(" * 256, "a" * 256):
            said = member.fault("GET", f"/servers?{name}={quote(value)}", 400)
            assert len(value) > 500 or "is too long" in said, (name, value[:20])      # a long message is cut
    assert patterns.compile_linear.cache_info().misses == before


def test_an_expression_is_compiled_once_and_within_limits(cloud):
    member = cloud.client(version="2.96")
    for value in ("(?i)" + WIDE * 35, WIDE * 36, "(?i)" + "k" * 251):
        patterns.compile_linear.cache_clear()
        member.get(f"/servers?name={quote(value)}")
        assert patterns.compile_linear.cache_info().misses == 1, value[:20]
    for value in (r"\pL" * 85, "(?i)" + r"\pL" * 80):       # RE2 would take more than the memory that it is given
        assert "too large" in member.fault("GET", f"/servers?name={quote(value)}", 400)
        assert "too large" in member.fault("GET", f"/servers?power_state={quote(value)}", 400)     # of the schema only


def test_expressions_of_everyday_work_everywhere(cloud):
    member = cloud.client(version="2.96")
    for name in ("web-1", "web-2.example.org", "db-1"):
        cloud.add_server(display_name=name, hostname=name)
    for pattern, expected in (("^(web|db)-[0-9]+$", {"web-1", "db-1"}), ("^web.*[.]e.+[.](org|com)$", {"web-2.example.org"}),
                              ("-[12]", {"web-1", "web-2.example.org", "db-1"}), ("b-1$", {"web-1", "db-1"})):
        found = member.get(f"/servers?name={quote(pattern)}")["servers"]
        assert {server["name"] for server in found} == expected, pattern


def test_a_statement_with_an_expression_has_a_time_limit(cloud, monkeypatch):
    """On servers of databases, which have engines of their own; the connection is as good as new afterwards."""
    if cloud.db.engine.dialect.name == "sqlite":
        pytest.skip("RE2's time is linear")
    monkeypatch.setattr(instance_list, "PATTERN_SECONDS", 0.5)
    sleep = sa.func.sleep(3) if cloud.db.engine.dialect.name == "mysql" else sa.func.pg_sleep(3).cast(sa.Text)
    monkeypatch.setattr(instance_list, "_tag_conditions", lambda tags: [sleep.is_not(None)])
    member = cloud.client(version="2.96")
    begin = time.monotonic()
    assert "more than 0.5 seconds" in member.fault("GET", "/servers?name=a.*b", 400)
    assert time.monotonic() - begin < 2.5
    with cloud.db.read() as connection:     # other statements may take their time
        connection.execute(sa.select(sleep))


def test_a_row_that_takes_too_many_steps(cloud):
    """MariaDB ends a statement between two rows only. One row takes it half a minute, or is silently left out."""
    if cloud.db.engine.dialect.name != "mysql":
        pytest.skip("PostgreSQL looks at the clock within a row, RE2 takes linear time")
    begin = time.monotonic()
    assert "too many steps" in cloud.client().fault("GET", f"/servers?name={quote('(?:a?){100}a{100}b')}", 400)
    assert time.monotonic() - begin < instance_list.PATTERN_SECONDS


def test_many_names_are_searched_in_linear_time(tmp_path):
    """A thousand names against the most expensive expression that is taken."""
    engine = core.make_engine(make_tables(f"sqlite:///{tmp_path}/db"))
    with engine.begin() as connection:
        connection.execute(sa.insert(tables.instance_tags), [
            {"instance_uuid": f"{number:036}", "tag": "".join(random.Random(number).choices("ab", k=60))}
            for number in range(1000)])
    for pattern in HOSTILE:
        try:
            patterns.compile_linear(pattern)
        except patterns.exception.InvalidInput:     # too large
            continue
        begin = time.monotonic()
        with engine.begin() as connection:
            connection.execute(sa.select(tables.instance_tags).where(tables.instance_tags.c.tag.regexp_match(pattern))).all()
        assert time.monotonic() - begin < 4, pattern
    engine.dispose()


def test_without_re2_no_expression_may_repeat_or_choose(monkeypatch):
    monkeypatch.setattr(patterns, "re2", None)
    patterns.compile_linear.cache_clear()
    try:
        for pattern in (".*", "a+", "a?", "a{2}", "(a)", "a|b", "[a-b]", WIDE, r"[!-\uffff]", "[" * 256):
            with pytest.raises(patterns.exception.InvalidInput, match="not taken here"):
                patterns.compile_linear(pattern)
        assert patterns.compile_linear("^192.0.2[.]1$").search("192.0.2.1")
    finally:
        patterns.compile_linear.cache_clear()
