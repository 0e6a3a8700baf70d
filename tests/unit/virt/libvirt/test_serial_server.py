"""The serial consoles of a host on one port, with real terminals."""
import os
import pty
import socket

import pytest

from nova_lite import exception
from nova_lite.virt.libvirt.serial_server import SerialServer
from tests.support.many_files import many_files
from tests.support.process import wait_for


class Guests:
    """uuid -> the guest's end of its serial port."""

    def __init__(self):
        self.ends, self.names = {}, {}

    def add(self, uuid):
        self.ends[uuid], other = pty.openpty()
        self.names[uuid] = os.ttyname(other), other
        return self.ends[uuid]

    def end(self, uuid):
        """As QEMU does."""
        os.close(self.ends.pop(uuid))
        os.close(self.names.pop(uuid)[1])

    def find(self, uuid):
        if uuid not in self.names:
            raise exception.VirtDriverError(what="serial console", reason="it does not run")
        return self.names[uuid][0]


@pytest.fixture
def guests():
    made = Guests()
    yield made
    for uuid, end in made.ends.items():
        os.close(end)
        os.close(made.names[uuid][1])


@pytest.fixture
def server(guests):
    made = SerialServer("127.0.0.1", 0, guests.find)
    yield made
    made.stop()


def connect(server, path):
    """A connection and the first line of the answer."""
    sock = socket.create_connection(("127.0.0.1", server.port), 30)
    sock.sendall(f"CONNECT {path} HTTP/1.1\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        more = sock.recv(1)
        if not more:
            break
        head += more
    return sock, head.partition(b"\r\n")[0].decode()


def test_both_ways(server, guests):
    guest = guests.add("one")
    sock, said = connect(server, server.path_of("one"))
    assert said == "HTTP/1.1 200 OK"
    with sock:
        sock.sendall(b"root\r\x03")
        assert os.read(guest, 100) == b"root\r\x03"       # as it was typed: no echo, no signal, no line end made of another
        os.write(guest, b"login: \xff\n")
        assert sock.recv(100) == b"login: \xff\n"
    with connect(server, server.path_of("one"))[0] as again:
        os.write(guest, b"still there")
        assert again.recv(100) == b"still there"


def test_each_guest_has_its_own(server, guests):
    first, second = guests.add("one"), guests.add("two")
    assert server.path_of("one") == server.path_of("one") != server.path_of("two")
    with connect(server, server.path_of("one"))[0] as one, connect(server, server.path_of("two"))[0] as two:
        os.write(first, b"first")
        os.write(second, b"second")
        assert (one.recv(100), two.recv(100)) == (b"first", b"second")


@pytest.mark.parametrize("path", ["", "one", "../one", "x" * 2000])
def test_nobody_else_gets_in(server, guests, path):
    guests.add("one")
    server.path_of("one")
    sock, said = connect(server, path)
    sock.close()
    assert "200" not in said


def test_a_guest_that_is_gone(server, guests):
    guests.add("one")
    path = server.path_of("one")
    server.forget("one")
    assert connect(server, path)[1] == "HTTP/1.1 404 Not Found"
    assert connect(server, server.path_of("not running"))[1] == ""      # hung up


def test_the_user_is_told_that_the_guest_has_ended(server, guests):
    guest = guests.add("one")
    sock, _ = connect(server, server.path_of("one"))
    with sock:
        os.write(guest, b"bye")
        assert sock.recv(100) == b"bye"
        guests.end("one")
        sock.settimeout(30)
        assert sock.recv(100) == b""
    wait_for("the session to be left", lambda: not server._sessions)


def test_a_guest_that_ends_while_it_is_connected_to(guests):
    """Its terminal may be another guest's by then."""
    other = guests.add("other")
    asked = []

    def find(uuid):
        asked.append(uuid)
        return guests.find("other" if len(asked) == 1 else uuid)
    server = SerialServer("127.0.0.1", 0, find)
    try:
        sock, said = connect(server, server.path_of("one"))
        sock.close()
        assert said == ""
    finally:
        server.stop()
    os.set_blocking(other, False)
    with pytest.raises(BlockingIOError):
        os.read(other, 1)


def test_who_comes_later_has_the_console(server, guests):
    guest = guests.add("one")
    first, _ = connect(server, server.path_of("one"))
    second, _ = connect(server, server.path_of("one"))
    with first, second:
        assert first.recv(100) == b""
        os.write(guest, b"hello")
        assert second.recv(100) == b"hello"
        wait_for("one session to be left", lambda: len(server._sessions) == 1)


def test_a_host_with_many_open_files(server, guests):
    with many_files():
        guest, (sock, _) = guests.add("one"), connect(server, server.path_of("one"))
    with sock:
        sock.sendall(b"root")
        assert os.read(guest, 100) == b"root"
        os.write(guest, b"login: ")
        assert sock.recv(100) == b"login: "


def test_a_port_that_is_taken(server):
    with pytest.raises(exception.ConfigError, match="server_port"):
        SerialServer("127.0.0.1", server.port, lambda uuid: "")
