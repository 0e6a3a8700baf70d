"""Volumes get a LUKS header by the real qemu-img."""
import os
import shutil
import subprocess

import pytest

from nova_lite import exception
from nova_lite.virt.libvirt import luks, qemu_tools
from nova_lite.virt.libvirt.config import Disk, NetworkSource
from nova_lite.virt.libvirt.encryption import Encryption
from tests.support import storage

pytestmark = pytest.mark.skipif(not shutil.which("qemu-io"), reason="needs qemu-utils")
KEY = Encryption("key", "uuid")
SIZE = 8 << 20


def _file(directory, begin=b""):
    path = directory / "volume, 1.raw"
    path.write_bytes(begin)
    os.truncate(path, SIZE)
    return path, Disk(str(path), "vdb", format="raw")


def _opens(path, passphrase, tmp_path):
    """Whether QEMU reads the volume with this passphrase."""
    secret = tmp_path / "secret"
    secret.write_text(passphrase)
    name = str(path).replace(",", ",,")
    done = subprocess.run(["qemu-io", "--object", f"secret,id=s,file={secret}", "--image-opts", "-c", "read 0 512",
                           f"driver=luks,key-secret=s,file.driver=file,file.filename={name}"],
                          capture_output=True, text=True, check=False)
    return done.returncode == 0


def _instead(monkeypatch, tmp_path, program, script):
    """Another program of this name; REAL in its script is the right one."""
    wrapper = tmp_path / "bin" / program
    wrapper.parent.mkdir(exist_ok=True)
    wrapper.write_text("#!/bin/bash\n" + script.replace("REAL", shutil.which(program)))
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")


def test_an_empty_volume_is_formatted_once(tmp_path):
    path, disk = _file(tmp_path)
    luks.make_ready(disk, KEY, "the-right-one")
    assert (path.read_bytes()[:6], path.stat().st_size) == (b"LUKS\xba\xbe", SIZE)
    first = path.read_bytes()
    luks.make_ready(disk, KEY, "another")
    assert path.read_bytes() == first
    assert _opens(path, "the-right-one", tmp_path)
    assert not _opens(path, "another", tmp_path)


@pytest.mark.parametrize("kind", ["nbd", "iscsi"])
@pytest.mark.skipif(bool(storage.missing()), reason=f"not installed: {storage.missing()}")
def test_also_across_the_network(tmp_path, kind):
    path = _file(tmp_path)[0].rename(tmp_path / "volume")
    server = storage.NbdServer(path) if kind == "nbd" else None
    disk = Disk("", "vdb", network=NetworkSource("nbd", "volume", (("127.0.0.1", str(server.port)),))) if server else None
    target, password = None, ""
    try:
        if disk is None:
            if os.geteuid() != 0:
                pytest.skip("tgtd needs root")
            target = storage.IscsiTarget()
            disk, password = storage.iscsi_disk(target.export(path)), storage.PASSWORD
        luks.make_ready(disk, KEY, "the-right-one", password)
        luks.make_ready(disk, KEY, "the-right-one", password)
        if password:
            with pytest.raises(exception.VirtDriverError, match="LUKS header") as caught:
                luks.make_ready(disk, KEY, "the-right-one", "a-wrong-one-12")
            assert "a-wrong-one-12" not in str(caught.value)
    finally:
        for one in (server, target):
            if one is not None:
                one.stop()
    assert path.stat().st_size == SIZE
    assert _opens(path, "the-right-one", tmp_path)


def _killed(tmp_path, monkeypatch, disk, steps, passphrase):
    """A run whose qemu-io is killed after so many of its six steps: three writes, a flush after each."""
    with monkeypatch.context() as patch:
        _instead(patch, tmp_path, "qemu-io", f"""
case "$*" in *"write -s"*) ;; *) exec REAL "$@" ;; esac
words=() seen=0
for word in "$@"; do
    [ "$word" = -c ] && seen=$((seen + 1))
    [ $seen -gt {steps} ] && case "$word" in driver=*) ;; *) continue ;; esac
    words+=("$word")
done
REAL "${{words[@]}}"
exit 137
""")
        with pytest.raises(exception.VirtDriverError, match="Writing the LUKS header"):
            luks.make_ready(disk, KEY, passphrase)


def test_a_header_that_killed_runs_wrote_in_part_is_written_anew(tmp_path, monkeypatch):
    path, disk = _file(tmp_path)
    for steps in (1, 3):
        before = path.read_bytes()
        _killed(tmp_path, monkeypatch, disk, steps, "of-a-killed-run")
        assert path.read_bytes() != before
    luks.make_ready(disk, KEY, "the-right-one")
    assert _opens(path, "the-right-one", tmp_path)
    assert path.stat().st_size == SIZE


def test_a_header_that_a_killed_run_wrote_in_full_stays(tmp_path, monkeypatch):
    path, disk = _file(tmp_path)
    _killed(tmp_path, monkeypatch, disk, 5, "of-the-killed-run")
    written = path.read_bytes()
    luks.make_ready(disk, KEY, "another")
    assert path.read_bytes() == written
    assert _opens(path, "of-the-killed-run", tmp_path)


def test_a_volume_with_other_data_is_never_overwritten(tmp_path):
    path, disk = _file(tmp_path, b"\0" * 4096 + b"somebody's data")
    before = path.read_bytes()
    with pytest.raises(exception.InvalidVolume, match="other data"):
        luks.make_ready(disk, KEY, "secret-word")
    assert path.read_bytes() == before


@pytest.mark.parametrize(("failures", "formatted"), [(3, True), (100, False)])
def test_a_machine_too_busy_to_be_measured_is_asked_again(tmp_path, monkeypatch, failures, formatted):
    """qemu-img 7.2 ends with an error when the thread's clock has not moved while it tried how fast the machine is."""
    count = tmp_path / "count"
    _instead(monkeypatch, tmp_path, "qemu-img", f"""
if [ "$1" = create ] && echo >>{count} && [ "$(wc -l <{count})" -le {failures} ]; then
    echo "qemu-img: header: Unable to get accurate CPU usage" >&2
    exit 1
fi
exec REAL "$@"
""")
    path, disk = _file(tmp_path)
    if formatted:
        luks.make_ready(disk, KEY, "the-right-one")
        assert _opens(path, "the-right-one", tmp_path)
    else:
        with pytest.raises(exception.VirtDriverError, match="accurate CPU usage"):
            luks.make_ready(disk, KEY, "the-right-one")
        assert not any(path.read_bytes())


def test_what_cannot_be_done_says_why_and_tells_no_secret(tmp_path, monkeypatch):
    path, disk = _file(tmp_path)
    for encrypted, kind, reason in ((Encryption("k", "u", "aes"), exception.InvalidVolume, "cipher aes"),
                                    (Encryption("k", "u", "odd-xts-plain64"), exception.VirtDriverError, "Making the LUKS")):
        with pytest.raises(kind, match=reason) as caught:
            luks.make_ready(disk, encrypted, "secret-word")
        assert "secret-word" not in str(caught.value)
    assert not any(path.read_bytes())
    with pytest.raises(exception.InvalidVolume, match="of rbd must have been formatted"):
        luks.make_ready(Disk("", "vdb", network=NetworkSource("rbd", "p/v", (("h", "1"),))), KEY, "secret-word")
    monkeypatch.setattr(qemu_tools, "SECONDS", 0.0)
    with pytest.raises(exception.VirtDriverError, match="did not end within"):
        luks.make_ready(disk, KEY, "secret-word")
