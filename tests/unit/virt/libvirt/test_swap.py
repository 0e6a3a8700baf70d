"""Which disks are the same volume."""
import pytest
from lxml import etree

from nova_lite.virt.libvirt.swap import is_same_source

NBD = '<disk type="network"><source protocol="nbd" name="{name}">{hosts}</source><target dev="vdb"/></disk>'
FILE = '<disk type="file"><source file="{0}" index="3"/><target dev="vdb"/></disk>'


def nbd(*hosts, name="volume"):
    return NBD.format(name=name, hosts="".join(f'<host name="{h}"' + (f' port="{p}"' if p else "") + "/>" for h, p in hosts))


@pytest.mark.parametrize(("one", "other", "same"), [
    (nbd(("one", "1")), nbd(("one", "1")), True),
    (nbd(("one", "1")), nbd(("two", "1")), False),
    (nbd(("one", "1")), nbd(("one", "2")), False),
    (nbd(("one", "1")), nbd(("one", "1"), name="other"), False),
    (nbd(("one", "")), nbd(("one", "10809")), True),
    (nbd(("one", "1"), ("two", "1")), nbd(("two", "1"), ("one", "1")), True),
    (nbd(("[::1]", "1")), nbd(("::1", "1")), True),
    (FILE.format("/a"), FILE.format("/a"), True),
    (FILE.format("/a"), FILE.format("/b"), False),
    (FILE.format("/a"), nbd(("one", "1")), False)])
def test_a_volume_is_its_name_and_its_servers(one, other, same):
    assert is_same_source(etree.fromstring(one), etree.fromstring(other)) is same
    assert is_same_source(etree.fromstring(other), etree.fromstring(one)) is same
