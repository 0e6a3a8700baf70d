"""A host's cache of images: what is not the image by its digest is fetched again, and never given to a guest."""
import dataclasses
import hashlib
import os
import shutil

import pytest

from nova_lite import exception
from nova_lite.image import digests
from nova_lite.objects.image import ImageMeta

from .image_hosts import MIB, NO_FILES, bases, hosts, image, server

pytest.importorskip("libvirt")
pytestmark = pytest.mark.skipif(not shutil.which("qemu-storage-daemon"), reason="qemu-utils are not installed")
MOVE = "30000000-0000-4000-8000-000000000003"
DATA = b"boot" * (MIB // 4) + b"the end is no whole sector"


@pytest.fixture
def made(tmp_path, monkeypatch):
    with hosts(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def fetch(tmp_path):
    """Counts."""
    path, calls = tmp_path / "image.raw", []
    path.write_bytes(DATA)

    def copy(image_id, target):
        calls.append(image_id)
        shutil.copyfile(path, target)
    copy.calls = calls
    return copy


def _digested(algorithm="sha512"):
    return image(size=len(DATA), hash_algo=algorithm, checksum=hashlib.new(algorithm, DATA).hexdigest())


def _swap(path, data):
    """As somebody with a hand in the cache does it."""
    other = path.with_name(".other")
    other.write_bytes(data)
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.rename(path)


def _write(path, data):
    path.chmod(0o640)
    with open(path, "r+b") as stream:
        stream.write(data)


SPOILED = {"a part of it": lambda path: os.truncate(path, MIB // 2), "another file": lambda path: _swap(path, bytes(len(DATA))),
           "written to": lambda path: _write(path, b"evil")}


@pytest.mark.parametrize("algorithm", ["sha512", "md5"])
@pytest.mark.parametrize("is_new", [True, False], ids=["a daemon that was started anew", "the same daemon"])
@pytest.mark.parametrize("how", SPOILED)
def test_what_is_not_the_image_any_more_is_fetched_again(made, fetch, how, is_new, algorithm):
    driver, wanted = made.start(), _digested(algorithm)
    driver.cache_image(wanted, fetch)
    base = bases(driver) / wanted.id
    SPOILED[how](base)
    guest = server(wanted)
    driver = made.start() if is_new else driver
    driver.spawn(guest, [], NO_FILES, fetch)
    assert base.read_bytes() == DATA
    assert fetch.calls == [wanted.id] * 2
    driver.destroy(guest, [])


def test_the_image_is_read_again_only_when_it_may_be_another(made, fetch, monkeypatch):
    driver, wanted, looks = made.start(), _digested(), []
    monkeypatch.setattr(digests, "fits", lambda image, path, fits=digests.fits: looks.append(path) or fits(image, path))
    for _ in range(2):
        driver.cache_image(wanted, fetch)
    assert looks == []          # who fetched it has compared the digest
    again = made.start()
    for _ in range(2):
        again.cache_image(wanted, fetch)
        driver.cache_image(wanted, fetch)       # another host, which has the same cache
    assert looks == [bases(driver) / wanted.id]
    assert fetch.calls == [wanted.id]


def test_a_spoiled_image_that_cannot_be_had_again_is_given_to_nobody(made, fetch):
    driver, wanted, guest = made.start(), _digested(), None
    driver.cache_image(wanted, fetch)
    SPOILED["written to"](bases(driver) / wanted.id)
    guest = server(wanted)

    def gone(image_id, _path):
        raise exception.ImageNotFound(image_id=image_id)
    with pytest.raises(exception.BuildAborted, match="could not be found"):
        driver.spawn(guest, [], NO_FILES, gone)
    assert not made.files("one", guest).disk.exists()


@pytest.mark.parametrize("is_spoiled", [False, True])
def test_an_image_that_comes_from_another_hosts_cache_is_compared_too(made, fetch, is_spoiled):
    """The Image service has deleted it since."""
    old, new, guest = made.start(), made.start("two"), server(_digested())
    old.spawn(guest, [], NO_FILES, fetch)
    old.set_aside(guest, [], 0, MOVE)
    if is_spoiled:
        _write(bases(old) / guest.image.id, b"evil")

    def gone(image_id, _path):
        raise exception.ImageNotFound(image_id=image_id)
    offer = old.offer_disks(guest)
    if is_spoiled:
        with pytest.raises(exception.ImageUnacceptable, match="the copy of the other host does not match its checksum"):
            new.receive_guest(guest, offer, gone, MOVE)
        assert not (bases(new) / guest.image.id).exists()
    else:
        new.receive_guest(guest, offer, gone, MOVE)
        assert (bases(new) / guest.image.id).read_bytes() == DATA
    old.drop_aside(guest)


@pytest.mark.parametrize("algorithm", ["crc32", "shake_256", ""])
def test_a_digest_that_cannot_be_computed_is_refused_not_passed_over(algorithm):
    with pytest.raises(exception.ImageUnacceptable, match=f"its digest is by '{algorithm}', which is not known"):
        digests.begun(dataclasses.replace(ImageMeta("i"), hash_algo=algorithm, checksum="00"))


def test_without_a_digest_the_size_counts(made, fetch):
    driver, wanted = made.start(), image(size=len(DATA))
    driver.cache_image(wanted, fetch)
    SPOILED["a part of it"](bases(driver) / wanted.id)
    driver.cache_image(wanted, fetch)
    assert (bases(driver) / wanted.id).read_bytes() == DATA
