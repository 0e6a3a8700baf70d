"""What becomes of Cinder's connection_info: pure."""
import copy

import pytest

from nova_lite import exception
from nova_lite.virt.libvirt import volumes

from .builders import FILE, ISCSI, NBD, RBD, instance, volume

ID = volume(1).volume_id


def _info(base, **data):
    made = copy.deepcopy(base["connection_info"])
    made["data"] = {k: v for k, v in {**made["data"], **data}.items() if v is not None}
    return made


def test_no_secret_is_left_and_libvirt_keeps_it():
    told = _info(ISCSI, secret_uuid=None, auth_password="geheim", discovery_auth_password="auch", discovery_auth_username="d")
    made = volumes.prepared(instance(), ID, told)
    assert "geheim" not in str(made)
    assert "auch" not in str(made)
    assert volumes.secret(told) == ("iscsi", "geheim")
    assert made["data"]["secret_uuid"] == volumes.secret_uuid(instance(), ID)
    assert volumes.disk(instance(), volume(1, connection_info=made), "vdb").network.auth.secret_uuid == \
        made["data"]["secret_uuid"]
    assert told["data"]["auth_password"] == "geheim"       # the caller's is not touched


def test_the_secret_of_each_server_and_volume_is_another_and_always_the_same():
    one, other = instance(), instance(uuid="21111111-2222-3333-4444-555555555555")
    found = {volumes.secret_uuid(s, v) for s in (one, other) for v in (ID, volume(2).volume_id)}
    assert len(found) == 4
    assert volumes.secret_uuid(instance(), ID) in found


@pytest.mark.parametrize("keyring", ["AQAB==", "[client.cinder]\n\tkey = AQAB==\n\tcaps mon = \"profile rbd\"\n"])
def test_ceph_by_a_keyring_of_cinder(keyring):
    told = _info(RBD, secret_uuid=None, keyring=keyring)
    made = volumes.prepared(instance(), ID, told)
    assert volumes.secret(told) == ("ceph", "AQAB==")
    assert "AQAB" not in str(made)
    assert made["data"]["secret_uuid"] == volumes.secret_uuid(instance(), ID)


def test_ceph_by_a_secret_that_the_operator_made():
    told = _info(RBD)
    assert volumes.secret(told) is None
    assert volumes.prepared(instance(), ID, told) == told


def test_iscsi_without_authentication_and_with_several_portals():
    told = _info(ISCSI, auth_method=None, auth_username=None, target_portal=None, target_iqn=None, target_lun=None,
                 target_portals=["10.0.0.1:3261", "10.0.0.2:3261"], target_iqns=["iqn.a", "iqn.b"], target_luns=[0, 0])
    source = volumes.disk(instance(), volume(1, connection_info=volumes.prepared(instance(), ID, told)), "vdb").network
    assert (source.name, source.hosts, source.auth) == ("iqn.a/0", (("10.0.0.1", "3261"),), None)


@pytest.mark.parametrize(("told", "reason"), [
    ({"driver_volume_type": "fibre_channel", "data": {}}, "fibre_channel is not one of rbd, iscsi, nbd, local"),
    ({}, "None is not one of"),
    (_info(NBD, encrypted=True), r"provider \(none\)"),
    (_info(ISCSI, auth_method="KRB5"), "KRB5"),
    (_info(ISCSI, target_iqn=None), "incomplete.*target_iqns"),
    (_info(ISCSI, secret_uuid=None), "incomplete.*secret_uuid"),
    ({"driver_volume_type": "rbd", "data": {**RBD["connection_info"]["data"], "secret_uuid": None}}, "secret_uuid is empty"),
    (_info(RBD, hosts=None), "incomplete.*hosts"),
    (_info(RBD, ports=["1"]), "incomplete"),
    (_info(NBD, host=None), "incomplete.*host"),
    (_info(NBD, qos_specs={"total_iops_sec": "many"}), "incomplete.*many"),
    (_info(FILE, device_path=""), "incomplete.*device_path"),
])
def test_what_cannot_be_attached_is_refused_with_its_reason(told, reason):
    with pytest.raises(exception.InvalidVolume, match=reason):
        volumes.prepared(instance(), ID, told)
