"""The uptime of a host, as the command of that name prints it and python-openstackclient takes it apart."""
import re
import struct
import time

import pytest

from nova_lite.virt import host_uptime

CLIENT = re.compile(r"\s*(.+)\sup\s+(.+),\s+(.+)\susers?,\s+load average:\s(.+)")
MORNING = time.strptime("08:32:11", "%H:%M:%S")


@pytest.mark.parametrize(("seconds", "logins", "said"), [
    (93 * 86400 + 18 * 3600 + 25 * 60 + 3, 12, " 08:32:11 up 93 days, 18:25, 12 users,  load average: 0.20, 0.12, 0.14"),
    (86400 + 3 * 3600, 1, " 08:32:11 up 1 day,  3:00, 1 user,  load average: 0.20, 0.12, 0.14"),
    (59 * 60, 0, " 08:32:11 up 59 min, 0 users,  load average: 0.20, 0.12, 0.14")])
def test_the_line(tmp_path, seconds, logins, said):
    (tmp_path / "uptime").write_text(f"{seconds}.31 12345.67\n")
    (tmp_path / "loadavg").write_text("0.20 0.12 0.14 2/345 6789\n")
    kinds = [2, *[7] * logins, 8]       # the boot, the users, a login that has ended
    (tmp_path / "utmp").write_bytes(b"".join(struct.pack("<h382x", kind) for kind in kinds))
    assert host_uptime.line(tmp_path, tmp_path / "utmp", MORNING) == said


def test_the_line_of_this_machine():
    match = CLIENT.match(host_uptime.line())
    assert match is not None
    assert len(match[4].split(", ")) == 3
