"""Ethernet frames of one's own making, sent and heard in network namespaces: what a guest with bad manners would send."""
from __future__ import annotations

import ipaddress
import struct
import subprocess
import sys

BROADCAST = "ff:ff:ff:ff:ff:ff"
_MARK = b"nl-frame:"
_SEND = """
import socket, sys
line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
line.bind((sys.argv[1], 0))
for frame in sys.argv[2:]:
    line.send(bytes.fromhex(frame))
"""
_HEAR = """
import socket, sys
line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
line.bind((sys.argv[1], 0))
print("ready", flush=True)
while True:
    frame = line.recv(2000)
    if b"nl-frame:" in frame:
        name = frame.partition(b"nl-frame:")[2].split(b";")[0].decode()
        print(name, flush=True)
        if name == sys.argv[2]:
            break
"""


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def frame(name: str, source: str, kind: int, payload: bytes) -> bytes:
    """A broadcast frame of an Ethernet type, with its name behind what it carries."""
    return _mac(BROADCAST) + _mac(source) + struct.pack("!H", kind) + payload + _MARK + name.encode() + b";"


def arp(name: str, source: str, mac: str, address: str) -> bytes:
    """``mac`` says that it has ``address``; the frame is sent by ``source``."""
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + _mac(mac) + ipaddress.IPv4Address(address).packed
    return frame(name, source, 0x0806, body + _mac(BROADCAST) + ipaddress.IPv4Address(address).packed)


def udp(name: str, source: str, address: str, ports: tuple[int, int] = (5000, 5000), content: bytes = b"") -> bytes:
    """A datagram to everybody, from ``address``; ``ports`` are its source and its destination. UDP's checksum is left out."""
    content += _MARK + name.encode() + b";"
    return _ipv4(name, source, address, struct.pack("!HHHH", *ports, 8 + len(content), 0) + content)


def dhcp(name: str, source: str, address: str, chaddr: str, kind: int = 1, options: bytes = b"") -> bytes:
    """A DHCP client's message of a kind (1: DISCOVER, 4: DECLINE) to everybody, about the nic with the hardware address
    ``chaddr``; ``options`` are more options as they are sent."""
    bootp = struct.pack("!BBBBIHH", 1, 1, 6, 0, 1, 0, 0x8000) + bytes(16) + _mac(chaddr) + bytes(10 + 64 + 128)
    return udp(name, source, address, (68, 67), bootp + bytes([99, 130, 83, 99, 53, 1, kind]) + options + b"\xff")


def cut(name: str, whole: bytes, count: int) -> list[bytes]:
    """A datagram in two fragments, "first NAME" with ``count`` bytes of it, a multiple of 8, and "second NAME"."""
    source, address, content = whole[6:12].hex(":"), str(ipaddress.IPv4Address(whole[26:30])), whole[34:]
    return [_ipv4(f"first {name}", source, address, content[:count], 0x2000),
            _ipv4(f"second {name}", source, address, content[count:-len(_MARK)], count // 8)]


def _ipv4(name: str, source: str, address: str, content: bytes, fragment: int = 0) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(content), 1, fragment, 64, 17, 0)
    head += ipaddress.IPv4Address(address).packed + ipaddress.IPv4Address("255.255.255.255").packed
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    return frame(name, source, 0x0800, head + content)


def ipv6(name: str, source: str) -> bytes:
    """A packet without a next header, from one link-local address to all nodes."""
    length = len(_MARK) + len(name) + 1
    head = struct.pack("!IHBB", 0x60000000, length, 59, 255) + ipaddress.IPv6Address("fe80::1").packed
    return frame(name, source, 0x86DD, head + ipaddress.IPv6Address("ff02::1").packed)


def name_of(sent: bytes) -> str:
    """The name of a frame."""
    return sent.rpartition(_MARK)[2][:-1].decode()


def heard(sender: str, receiver: str, frames: list[bytes], last: str, interface: str = "eth0") -> list[str]:
    """The names of those frames, sent by eth0 of one namespace, that arrive at ``interface`` of another until ``last`` does."""
    listener = subprocess.Popen(["ip", "netns", "exec", receiver, sys.executable, "-c", _HEAR, interface, last],
                                stdout=subprocess.PIPE, text=True)
    assert listener.stdout is not None
    try:
        assert listener.stdout.readline() == "ready\n"
        subprocess.run(["ip", "netns", "exec", sender, sys.executable, "-c", _SEND, "eth0", *(f.hex() for f in frames)],
                       check=True, timeout=60)
        return listener.communicate(timeout=60)[0].splitlines()
    finally:
        listener.kill()
        listener.wait()
        listener.stdout.close()
