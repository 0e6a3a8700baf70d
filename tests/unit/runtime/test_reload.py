"""The configuration is read again: URLs that work are taken over by those who hold connections, others change nothing."""
from __future__ import annotations

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from nova_lite import conf as conf_module
from nova_lite import exception, rpc
from nova_lite.db.core import Database
from nova_lite.runtime import reload
from nova_lite.runtime.checks import check_broker


class File:
    """A file of options and who holds connections by it."""

    def __init__(self, path):
        self._path, self.asked = path, []
        self.write("one")
        self.conf = conf_module.load([f"--config-file={path}/conf"])
        self.database, self.transport = Database(self.conf), rpc.get_transport(self.conf, self.changed)
        rpc.Client(self.transport)

    def write(self, name, debug=False):
        (self._path / "conf").write_text(f"[DEFAULT]\ntransport_url = fake://{name}\ndebug = {debug}\n"
                                         f"[database]\nconnection = sqlite:///{self._path}/{name}\n")

    def changed(self):
        self.asked.append(self.conf.transport_url)
        if "deaf" in self.conf.transport_url:
            raise RuntimeError("cannot listen there")

    def reread(self, *checks):
        reload.reread(self.conf, checks or [check_broker])

    @property
    def used(self):
        """The names that the database and the broker have now."""
        with self.database.read() as connection:
            found = connection.execute(sa.text("PRAGMA database_list")).first()
        return found[2].rpartition("/")[2], self.transport._driver._url.hosts[0].hostname


@pytest.fixture
def file(tmp_path):
    made = File(tmp_path)
    yield made
    made.database.dispose()


def test_new_urls_are_used_and_what_runs_goes_on(file, caplog):
    with file.database.read() as running:
        file.write("two")
        file.reread()
        assert file.used == ("two", "two")
        assert running.execute(sa.text("SELECT 1")).scalar() == 1
    assert file.asked == ["fake://two"]
    file.reread()
    assert file.asked == ["fake://two"]
    assert "immutable" not in caplog.text


def test_urls_that_do_not_work_are_one_line_and_change_nothing(file, caplog):
    def refuse(conf):
        raise exception.ServiceUnavailable(what="The database", reason="who are you?")

    file.write("two", debug=True)
    file.reread(refuse)
    assert file.used == ("one", "one")
    assert not file.conf.debug
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == [
        "the configuration was not read again: The database is unavailable: who are you?"]


def test_all_go_back_when_one_cannot_follow(file):
    file.write("deaf")
    file.reread()
    assert file.used == ("one", "one")
    file.write("two")
    file.reread()
    assert file.used == ("two", "two")


def test_a_process_without_checks_keeps_its_urls(file):
    file.write("two", debug=True)
    reload.reread(file.conf)
    assert file.used == ("one", "one")
    assert file.conf.debug


def test_a_broken_file_changes_nothing(file):
    (file._path / "conf").write_text("nonsense")
    file.reread()
    assert file.used == ("one", "one")
    with pytest.raises(cfg.Error):
        conf_module.load([f"--config-file={file._path}/conf"])
