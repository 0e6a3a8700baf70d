"""What the Volume service says of an encrypted volume, and what becomes of it: pure."""
import copy

import pytest

from nova_lite import exception
from nova_lite.virt.libvirt import encryption, volumes

from .builders import ISCSI, NBD, instance, volume

ID = volume(1).volume_id
SAID = {"provider": "luks", "encryption_key_id": "key", "cipher": "aes-cbc-essiv", "key_size": 128,
        "control_location": "front-end"}


def _info(base=NBD, encrypted=True, **said):
    made = copy.deepcopy(base["connection_info"])
    made["data"] |= {"encrypted": encrypted, "encryption": {**SAID, **said}}
    return made


@pytest.mark.parametrize("provider", ["luks", "nova.volume.encryptors.luks.LuksEncryptor",
                                      "os_brick.encryptors.luks.LuksEncryptor"])
def test_luks_is_known_by_all_its_names(provider):
    made = volumes.prepared(instance(), ID, _info(provider=provider))
    disk = volumes.disk(instance(), volume(1, connection_info=made), "vdb")
    assert disk.luks_secret == encryption.secret_uuid(instance(), ID)
    assert encryption.of(made) == encryption.Encryption("key", disk.luks_secret, "aes-cbc-essiv", 128)
    assert encryption.of_all([volume(1, connection_info=made), volume(2, **NBD), volume(3)])[0][0].volume_id == ID


def test_the_passphrase_is_another_secret_than_the_password_of_the_storage():
    disk = volumes.disk(instance(), volume(1, connection_info=volumes.prepared(instance(), ID, _info(ISCSI))), "vdb")
    assert disk.luks_secret != disk.network.auth.secret_uuid
    assert disk.luks_secret != encryption.secret_uuid(instance(uuid="21111111-2222-3333-4444-555555555555"), ID)


def test_what_is_no_secret_is_asked_of_the_volume_service_alone():
    """A connection that is not said to be encrypted is not, whatever else stands in it."""
    for info in (_info(encrypted=False), _info(control_location="back-end")):
        made = volumes.prepared(instance(), ID, info)
        assert encryption.of(made) is None
        assert volumes.disk(instance(), volume(1, connection_info=made), "vdb").luks_secret == ""


@pytest.mark.parametrize(("said", "reason"), [
    ({"provider": "luks2"}, "luks2: QEMU reads version 1"),
    ({"provider": "os_brick.encryptors.luks.Luks2Encryptor"}, "luks2"),
    ({"provider": "plain"}, "plain: QEMU does not read plain"),
    ({"provider": "nova.volume.encryptors.cryptsetup.CryptsetupEncryptor"}, "plain"),
    ({"provider": "odd"}, "odd: only luks"),
    ({"encryption_key_id": None}, "no key"),
])
def test_what_qemu_does_not_decrypt_is_refused_with_its_reason(said, reason):
    with pytest.raises(exception.InvalidVolume, match=reason):
        volumes.prepared(instance(), ID, _info(**said))
