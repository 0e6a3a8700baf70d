"""The end of a console log."""
from nova_lite.virt.libvirt import console


def test_the_last_lines(tmp_path):
    log = tmp_path / "console.log"
    log.write_bytes(b"one\r\ntwo\r\nthree\r\nlogin: ")
    assert console.tail(log, 2) == "three\r\nlogin: "
    assert console.tail(log, 100) == console.tail(log, None) == "one\r\ntwo\r\nthree\r\nlogin: "
    assert console.tail(log, 0) == ""


def test_a_guest_that_never_ran_said_nothing(tmp_path):
    assert console.tail(tmp_path / "console.log", 10) == ""


def test_the_log_before_the_last_rotation_belongs_to_it(tmp_path):
    (tmp_path / "console.log.0").write_bytes(b"one\ntwo\n")
    (tmp_path / "console.log").write_bytes(b"three\n")
    assert console.tail(tmp_path / "console.log", 2) == "two\nthree"


def test_an_answer_has_bounds_and_bytes_that_are_no_text_do_no_harm(tmp_path):
    log = tmp_path / "console.log"
    log.write_bytes(b"x" * 10 + b"\xff" * console.MAX_BYTES)
    assert console.tail(log, None) == "\ufffd" * console.MAX_BYTES
