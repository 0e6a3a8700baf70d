"""Files that outlive the loss of power."""
import os

from nova_lite import durable


def test_of_two_that_write_a_new_file_the_second_one_leaves_the_first_ones(tmp_path):
    path = tmp_path / "guest.json"
    assert durable.write_new(path, "first")
    assert not durable.write_new(path, "second")
    assert (path.read_text(), os.listdir(tmp_path), path.stat().st_mode & 0o777) == ("first", ["guest.json"], 0o600)
