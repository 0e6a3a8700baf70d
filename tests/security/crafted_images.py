"""Hostile image files: every format under every label, and headers that name other files or promise what is not there.

Nothing here needs qemu-img: what it refuses to make is made, too.
"""
from __future__ import annotations

import json
import pathlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

CLUSTER, MIB = 65536, 1 << 20
LABELS = ("raw", "qcow2", "vmdk", "vdi", "vhd", "vhdx", "iso", "qed", "ploop", "ami", "")


@dataclass(frozen=True)
class Crafted:
    """``label`` is the disk_format of the image's record. ``fits``: it is what its label says, and does no harm."""

    name: str
    label: str
    data: bytes
    fits: bool = False


def qcow2(version: int = 3, backing: bytes = b"", size: int = MIB, features: int = 0, extensions: bytes = b"",
          **fields: int) -> bytes:
    """One without data. ``fields`` are those of the header that are to lie."""
    name_at = 104 + len(extensions) + 8 if version >= 3 else 72 + len(extensions) + 8
    said = {"cluster_bits": 16, "crypt": 0, "l1_size": 1, "l1_offset": 3 * CLUSTER, "refcount_offset": CLUSTER,
            "refcount_clusters": 1, "snapshots": 0, "snapshots_offset": 0, "backing_offset": name_at if backing else 0,
            "backing_size": len(backing), "refcount_order": 4, "header_length": 104, **fields}
    header = b"QFI\xfb" + struct.pack(
        ">IQIIQIIQQIIQ", version, said["backing_offset"], said["backing_size"], said["cluster_bits"], size, said["crypt"],
        said["l1_size"], said["l1_offset"], said["refcount_offset"], said["refcount_clusters"], said["snapshots"],
        said["snapshots_offset"])
    if version >= 3:
        header += struct.pack(">QQQII", features, 0, 0, said["refcount_order"], said["header_length"])
    header += extensions + bytes(8) + backing
    table = struct.pack(">Q", 2 * CLUSTER).ljust(CLUSTER, b"\0")
    counts = struct.pack(">HHHH", 1, 1, 1, 1).ljust(CLUSTER, b"\0")
    return header.ljust(CLUSTER, b"\0") + table + counts + bytes(CLUSTER)


def extension(kind: int, data: bytes) -> bytes:
    """Of a qcow2 header."""
    return struct.pack(">II", kind, len(data)) + data.ljust(-(-len(data) // 8) * 8, b"\0")


def descriptor(extent: str, kind: str = "monolithicFlat") -> bytes:
    """VMDK's, as text."""
    return (f'# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType="{kind}"\n{extent}\n'
            "ddb.adapterType = \"ide\"\nddb.geometry.cylinders = \"1\"\nddb.geometry.heads = \"16\"\n"
            'ddb.geometry.sectors = "63"\n').encode()


def sparse_vmdk(text: bytes) -> bytes:
    """VMDK's binary form with such a descriptor in it."""
    header = struct.pack("<4sIIQQQQIQQQ", b"KDMV", 1, 3, 2048, 128, 1, 20, 512, 21, 26, 128)
    return header.ljust(512, b"\0") + text.ljust(20 * 512, b"\0") + bytes(64 * 1024)


def _formats() -> dict[str, bytes]:
    """The beginnings by which each format is known."""
    protective = b"\0\0\2\0\xee\xff\xff\xff\1\0\0\0\xff\xff\xff\xff"
    begin = {
        "qcow2 v3": qcow2(), "qcow2 v2": qcow2(2),
        "qcow v1": b"QFI\xfb" + struct.pack(">IQIIQBB", 1, 0, 0, 0, MIB, 12, 9),
        "qed": b"QED\0" + struct.pack("<IIIQQQQQ", CLUSTER, 4, 1, 0, 0, 0, CLUSTER, MIB),
        "vdi": b"<<< QEMU VM Virtual Disk Image >>>\n".ljust(64, b"\0") + b"\x7f\x10\xda\xbe" + struct.pack("<I", 0x10001),
        "vdi without its text": bytes(64) + b"\x7f\x10\xda\xbe", "vhd": b"conectix" + struct.pack(">II", 2, 0x10000),
        "vhdx": b"vhdxfile", "vmdk": sparse_vmdk(descriptor("")), "vmdk 3": b"COWD",
        "vmdk text": descriptor('RW 2048 FLAT "x-flat.vmdk" 0'), "parallels": b"WithoutFreeSpace",
        "parallels 2": b"WithouFreSpacExt", "luks": b"LUKS\xba\xbe\0\1", "bochs": b"Bochs Virtual HD Image",
        "cloop": b"#!/bin/sh\n#V2.0 Format\nmodprobe cloop file=$0 && mount",
        "gpt": bytes(446) + protective + bytes(48) + b"\x55\xaaEFI PART", "raw": b"\xeb\x63" + bytes(508) + b"\x55\xaa",
        "iso": bytes(32768) + b"\1CD001\1"}
    return {name: data.ljust(CLUSTER, b"\0") for name, data in begin.items()}


_HARMLESS = {("raw", "raw"), ("gpt", "raw"), ("iso", "raw"), ("qcow2 v3", "qcow2"), ("qcow2 v2", "qcow2")}


def mislabelled() -> Iterator[Crafted]:
    """Every format under every label."""
    for name, data in _formats().items():
        for label in LABELS:
            yield Crafted(f"{name} as {label or 'nothing'}", label, data, (name, label) in _HARMLESS)


def _named(secret: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Names of files, as QEMU understands them."""
    path = str(secret)
    yield "path", path.encode()
    yield "file:", f"file:{path}".encode()
    yield "json:", ("json:" + json.dumps({"driver": "raw", "file": {"driver": "file", "filename": path}})).encode()
    yield "json: of a node", ("json:" + json.dumps({"driver": "file", "filename": path})).encode()
    yield "up", f"../../../../../../../../..{path}".encode()
    yield "nbd", b"nbd://127.0.0.1:1/x"
    yield "fat", f"fat:{secret.parent}".encode()
    yield "blkdebug", f"blkdebug::{path}".encode()
    yield "commas", f"{path},,format=raw".encode()
    yield "NUL", path.encode() + b"\0x"
    yield "none", b"\0"


def naming(secret: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Files that have another file as their backing file, data or extent."""
    for kind, name in _named(secret):
        for version in (2, 3):
            yield f"qcow2 v{version} on {kind}", qcow2(version, name)
    raw = extension(0xe2792aca, b"raw")
    yield "qcow2 on a path with its format", qcow2(3, str(secret).encode(), extensions=raw)
    data_file = extension(0x44415441, str(secret).encode())
    yield "qcow2 with a data file", qcow2(3, features=4, extensions=data_file)
    yield "qcow2 with a raw data file", qcow2(3, features=4, extensions=data_file)[:88] + struct.pack(">Q", 2) + qcow2(
        3, features=4, extensions=data_file)[96:]
    yield "qcow2 with a data file that has no name", qcow2(3, features=4)
    for extent in (f'RW 2048 FLAT "{secret}" 0', f'RW 2048 VMFS "{secret}"', f'RW 2048 SPARSE "{secret}"',
                   f'RDONLY 2048 FLAT "{secret}" 0'):
        text = descriptor(extent)
        for kind, before in (("at once", b""), ("after a line feed", b"\n"), ("after spaces", b"   \r\n"),
                             ("after comments", b"# a disk\n# of mine\n\n")):
            yield f"vmdk text {kind}: {extent.split()[0]} {extent.split()[2]}", before + text
        yield f"vmdk with {extent.split()[0]} {extent.split()[2]}", sparse_vmdk(text)
    yield "vmdk text without its comment", descriptor(f'RW 2048 FLAT "{secret}" 0').partition(b"\n")[2]
    yield "qed on a path", b"QED\0" + struct.pack("<IIIQQQQQII", CLUSTER, 4, 1, 1, 0, 0, CLUSTER, MIB, 512, len(
        str(secret))).ljust(508, b"\0") + str(secret).encode()


def lying() -> Iterator[tuple[str, bytes]]:
    """Headers of qcow2 that promise what is not there, or more than there can be."""
    for size in (1 << 42, 1 << 60, (1 << 63) - 512, (1 << 64) - 1):
        yield f"a disk of {size} bytes", qcow2(size=size)
    for fields in ({"l1_size": (1 << 32) - 1}, {"l1_size": 1 << 22, "l1_offset": 1 << 62}, {"l1_offset": 3},
                   {"refcount_clusters": (1 << 32) - 1}, {"refcount_offset": 1 << 62}, {"refcount_clusters": 0},
                   {"snapshots": (1 << 32) - 1, "snapshots_offset": CLUSTER}, {"snapshots": 60000, "snapshots_offset": 1 << 60},
                   {"cluster_bits": 0}, {"cluster_bits": 8}, {"cluster_bits": 31}, {"cluster_bits": 63}, {"refcount_order": 63},
                   {"header_length": 0}, {"header_length": (1 << 32) - 8}, {"crypt": 1}, {"crypt": 2}, {"crypt": 99},
                   {"backing_size": (1 << 32) - 1, "backing_offset": 104}, {"backing_offset": 1 << 63, "backing_size": 9}):
        yield f"{fields}", qcow2(**fields)
    for bit in (1, 4, 5, 17, 63):
        yield f"feature {bit}", qcow2(features=1 << bit)
    for version in (0, 4, 9, (1 << 32) - 1):
        yield f"version {version}", qcow2(3)[:4] + struct.pack(">I", version) + qcow2(3)[8:]
    for kind in (0xe2792aca, 0x6803f857, 0x23852875, 0x0537be77):
        yield f"header extension {kind:x} without end", qcow2(extensions=struct.pack(">II", kind, (1 << 32) - 8))
    for end in (0, 1, 4, 8, 71, 72, 79, 103, 104, 511, 512, CLUSTER - 1, CLUSTER, 2 * CLUSTER, 3 * CLUSTER - 1):
        yield f"the first {end} bytes", qcow2()[:end]
    yield "a CD in the same file", qcow2()[:32768] + b"\1CD001\1" + qcow2()[32775:]
    yield "partitions in the same file", qcow2()[:510] + b"\x55\xaa" + qcow2()[512:]


def crafted(secret: pathlib.Path) -> list[Crafted]:
    """All of them; those that name a file name ``secret``."""
    found = list(mislabelled())
    for name, data in (*naming(secret), *lying()):
        labels = ("raw", "qcow2", "vmdk") if "vmdk" in name else ("raw", "qcow2")
        found += [Crafted(f"{name} as {label}", label, data) for label in labels]
    return found
