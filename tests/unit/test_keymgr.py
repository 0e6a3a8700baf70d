"""Where the passphrases of encrypted volumes come from."""
import sys
import threading
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception, keymgr

KEY = bytes(range(32))
HELD = threading.Event()


class Backend:
    """A key manager as castellan loads one by its name: it knows one key, and each other id is something that goes wrong."""

    def __init__(self, configuration):
        self.configuration = configuration

    def get(self, context, key_id):
        from castellan.common import exception as errors
        from castellan.common.objects.symmetric_key import SymmetricKey

        if key_id == "held":
            HELD.wait(60)
        if key_id == "refused":
            raise errors.KeyManagerError(reason="403 not for you")
        if key_id == "who":
            context.get_auth_plugin()
        if key_id != "there":
            raise errors.ManagedObjectNotFoundError(uuid=key_id)
        return SymmetricKey("AES", 256, KEY)


@pytest.fixture
def keys(tmp_path):
    pytest.importorskip("castellan")

    def make(**options):
        file = tmp_path / "nova-lite.conf"
        file.write_text(f"[key_manager]\nbackend = {__name__}.Backend\n")
        return keymgr.KeyManager(nova_lite.conf.load([], config_files=[str(file)], **options))

    return make


@pytest.mark.parametrize("backend", ["nova.keymgr.conf_key_mgr.ConfKeyManager", "barbican"])
def test_the_fixed_key_needs_no_key_manager(backend, monkeypatch):
    monkeypatch.setitem(sys.modules, "castellan", None)
    conf = nova_lite.conf.load([], config_files=[], key_manager__backend=backend, key_manager__fixed_key="00FFab")
    assert keymgr.KeyManager(conf).passphrase(keymgr.FIXED_KEY_ID) == "00ffab"


@pytest.mark.parametrize("fixed", [None, "", "no hex", "abc"])
def test_a_fixed_key_that_is_none(fixed):
    conf = nova_lite.conf.load([], config_files=[], key_manager__backend="nova.keymgr.conf_key_mgr.ConfKeyManager",
                               key_manager__fixed_key=fixed)
    with pytest.raises(exception.ConfigError, match="fixed_key is not a key"):
        keymgr.KeyManager(conf).passphrase(keymgr.FIXED_KEY_ID)


def test_another_key_than_the_fixed_one_is_not_there():
    conf = nova_lite.conf.load([], config_files=[], key_manager__backend="cinder.keymgr.conf_key_mgr.ConfKeyManager",
                               key_manager__fixed_key="00ff")
    with pytest.raises(exception.InvalidVolume, match="is not in the key manager"):
        keymgr.KeyManager(conf).passphrase(str(uuid.uuid4()))


def test_a_key_of_the_key_manager_becomes_the_passphrase_that_nova_and_cinder_make_of_it(keys):
    made = keys()
    assert made.passphrase("there") == KEY.hex()
    with pytest.raises(exception.InvalidVolume, match="gone is not in the key manager"):
        made.passphrase("gone")


@pytest.mark.parametrize(("key_id", "reason"), [("refused", "not for you"), ("who", "has no credentials")])
def test_a_key_manager_that_refuses_is_unavailable(keys, key_id, reason):
    error = exception.ConfigError if key_id == "who" else exception.ServiceUnavailable
    with pytest.raises(error, match=reason):
        keys().passphrase(key_id)


def test_a_key_manager_that_does_not_answer_is_not_waited_for_for_ever(keys):
    try:
        with pytest.raises(exception.ServiceUnavailable, match="no answer within"):
            keys(service_user__timeout=1).passphrase("held")
    finally:
        HELD.set()


def test_without_castellan_the_operator_is_told_what_to_install(keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "castellan", None)
    with pytest.raises(exception.ConfigError, match=r"pip install '\.\[encryption\]' in a clone"):
        keys().passphrase("there")


class Store:
    """One that keeps keys, or refuses all."""

    kept: dict = {}

    def __init__(self, configuration):
        self.configuration = configuration

    def store(self, context, key):
        if self.kept.get("refuses"):
            raise RuntimeError("403 secrets:post")
        self.kept["made"] = key
        return "made"

    def get(self, context, key_id):
        return self.kept[key_id]

    def delete(self, context, key_id):
        from castellan.common import exception as errors

        if self.kept.get("refuses"):
            raise RuntimeError("403 secret:delete")
        if self.kept.pop(key_id, None) is None:
            raise errors.ManagedObjectNotFoundError(uuid=key_id)


@pytest.fixture
def store(tmp_path, monkeypatch):
    pytest.importorskip("castellan")
    monkeypatch.setattr(Store, "kept", {})
    file = tmp_path / "nova-lite.conf"
    file.write_text(f"[key_manager]\nbackend = {__name__}.Store\n")
    return keymgr.KeyManager(nova_lite.conf.load([], config_files=[str(file)]))


def test_a_key_is_made_and_read_and_deleted(store):
    assert store.is_set_up
    assert store.create("disks of server 1") == "made"
    key = Store.kept["made"]
    assert (key.algorithm, key.bit_length, key.name) == ("AES", 256, "disks of server 1")
    assert store.passphrase("made") == key.get_encoded().hex()
    assert len(set(key.get_encoded())) > 8
    for _ in range(2):      # gone is no error
        store.delete("made")
    assert Store.kept == {}
    store.delete(keymgr.FIXED_KEY_ID)


def test_an_empty_key_is_none(store):
    """Its passphrase would be the one of what is not encrypted."""
    from castellan.common.objects.symmetric_key import SymmetricKey

    Store.kept["odd"] = SymmetricKey("AES", 0, b"")
    with pytest.raises(exception.EncryptionKeyNotFound, match="odd"):
        store.passphrase("odd")


def test_a_key_manager_that_lets_nobody_make_or_delete_keys_says_so(store):
    store.create("one")
    Store.kept["refuses"] = True
    for ask in (lambda: store.create("two"), lambda: store.delete("made")):
        with pytest.raises(exception.ServiceUnavailable, match="403"):
            ask()


def test_the_fixed_key_is_neither_made_nor_deleted(monkeypatch):
    monkeypatch.setitem(sys.modules, "castellan", None)
    made = [keymgr.KeyManager(nova_lite.conf.load([], config_files=[], key_manager__backend="nova.x.ConfKeyManager",
                                                  key_manager__fixed_key=fixed)) for fixed in ("00ff", "")]
    assert [one.is_set_up for one in made] == [True, False]
    assert made[0].create("one") == keymgr.FIXED_KEY_ID
    made[0].delete(keymgr.FIXED_KEY_ID)
    assert made[0].passphrase(keymgr.FIXED_KEY_ID) == "00ff"
    with pytest.raises(exception.ConfigError, match="fixed_key is not a key"):
        made[1].create("one")
