"""A private libvirtd for machines without one: the standalone cloud, `make run` and the integration tests.

All its state is in one directory. libvirtd uses fixed paths such as /etc/libvirt and /var/lib/libvirt. So it and virtlogd run
in a mount namespace in which these paths are bound to that directory; a UTS namespace gives it its own host name. Daemons and
guests continue when the process that started them ends; a later start finds them.
"""
from __future__ import annotations

import contextlib
import grp
import json
import operator
import os
import pathlib
import pwd
import shlex
import shutil
import signal
import subprocess
import uuid
import zlib
from typing import Any

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, retry
from nova_lite.runtime import concurrency
from nova_lite.virt.libvirt import virt_type
from nova_lite.virt.libvirt.connection import load_libvirt

LOG = log.getLogger(__name__)

START_TIMEOUT = 30.0
_SOCKET_PATH_MAX = 107
_QEMU_USER, _KVM = "libvirt-qemu", virt_type.DEVICE
_BOUND = {"etc": "/etc/libvirt", "lib": "/var/lib/libvirt", "log": "/var/log/libvirt", "cache": "/var/cache/libvirt",
          "run": "/run/libvirt"}
_DAEMONS = ("virtlogd", "libvirtd")
_LIBVIRTD_CONF = """\
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
host_uuid = "{host_uuid}"
log_outputs = "3:file:{directory}/log/libvirtd.log"
"""
# What a guest has open is QEMU's user's, by libvirt's doing, and root's when it is off.
_QEMU_CONF = """\
security_driver = "none"
user = "{user}"
group = "{user}"
swtpm_user = "root"
swtpm_group = "root"
dynamic_ownership = 1
remember_owner = 0
namespaces = []
stdio_handler = "logd"
remote_display_port_min = {consoles}
remote_display_port_max = {consoles_end}
"""
# Private daemons of one machine use different ranges of ports: libvirt's search for a free port reserves none.
_CONSOLES, _RANGES, _RANGE = 5900, 250, 100


def ensure(conf: cfg.ConfigOpts) -> LocalDaemon | None:
    """Make ``[libvirt] connection_uri`` lead to a daemon that answers. None when it does already; else a private daemon below
    ``state_path`` is started, and the option is changed."""
    if not conf.network.netns and _answers(conf.libvirt.connection_uri):
        return None
    daemon = LocalDaemon(pathlib.Path(conf.state_path) / "libvirt", hostname=conf.host, netns=conf.network.netns)
    conf.set_override("connection_uri", daemon.start(), group="libvirt")
    return daemon


class LocalDaemon:
    """libvirtd and virtlogd below ``directory``; with ``netns`` in that network namespace, where guests' bridges are.
    ``qemu_options`` are more lines of its qemu.conf; they count from the next start on."""

    def __init__(self, directory: str | os.PathLike[str], hostname: str = "", netns: str = "") -> None:
        self._directory = pathlib.Path(directory).absolute()
        self._hostname = hostname or os.uname().nodename
        self._netns = netns
        self.qemu_options: dict[str, str | int] = {}
        socket = self._directory / "run" / "libvirt-sock"
        if len(str(socket)) > _SOCKET_PATH_MAX:
            raise exception.ConfigError(reason=f"the path of libvirt's socket is too long: {socket}")
        self.uri = f"qemu+unix:///system?socket={socket}"

    def start(self) -> str:
        """Start the daemons that do not run, and return the connection URI. Raises ConfigError for a missing program."""
        if _answers(self.uri):
            return self.uri
        self._check()
        for name in _BOUND:
            (self._directory / name).mkdir(parents=True, exist_ok=True)
        user = self.qemu_user()
        self._configure(user)
        self._end("libvirtd")   # one that does not answer would keep its pid file locked
        LOG.info("Starting libvirtd in %s", self._directory)
        command = ["unshare", "--mount", "--uts", "--propagation", "private", "sh", "-ec", self._script(user)]
        if self._netns:
            command = ["nsenter", f"--net=/run/netns/{self._netns}", *command]
        with open(self._directory / "log" / "start.out", "ab") as output:
            try:
                subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=output,  # noqa: S603
                               stderr=output, start_new_session=True)
            except subprocess.CalledProcessError as error:
                raise exception.ConfigError(reason=f"libvirtd did not start: see {output.name}") from error
        self._wait()
        return self.uri

    def stop(self, destroy_guests: bool = True) -> None:
        """Stop the daemons that :meth:`start` started, and their guests unless stated otherwise."""
        if destroy_guests and _answers(self.uri):
            concurrency.native(_destroy_all, load_libvirt(), self.uri)
        self._end_daemons()

    def _check(self) -> None:
        if os.geteuid() != 0:
            raise exception.ConfigError(reason="a private libvirtd needs root; start one for the system, or use the fake "
                                               "driver")
        programs = [*_DAEMONS, "unshare", "hostname", "mount", *(["nsenter"] if self._netns else [])]
        missing = [p for p in programs if not shutil.which(p, path=_path())]
        if missing:
            raise exception.ConfigError(reason=f"not installed: {', '.join(missing)} (Debian: libvirt-daemon "
                                               f"libvirt-daemon-driver-qemu qemu-system-x86)")
        if self._netns and not pathlib.Path("/run/netns", self._netns).exists():
            raise exception.ConfigError(reason=f"[network] netns = {self._netns}: there is no such network namespace")

    def _configure(self, user: str) -> None:
        identity = self._directory / "host-uuid"
        if not identity.exists():
            identity.write_text(str(uuid.uuid4()))
        (self._directory / "etc" / "libvirtd.conf").write_text(
            _LIBVIRTD_CONF.format(host_uuid=identity.read_text().strip(), directory=self._directory))
        first = _CONSOLES + zlib.crc32(str(self._directory).encode()) % _RANGES * _RANGE
        (self._directory / "etc" / "qemu.conf").write_text(
            _QEMU_CONF.format(user=user, consoles=first, consoles_end=first + _RANGE - 1)
            + "".join(f"{name} = {json.dumps(value)}\n" for name, value in self.qemu_options.items()))

    def qemu_user(self) -> str:
        """As whom guests run: QEMU's own user, or root where that user cannot reach what it needs: this directory, beside which
        the guests' files are, or a /dev/kvm that works."""
        _ensure_qemu_user()
        closed = next((path for path in (self._directory / "lib" / "qemu").parents if not path.stat().st_mode & 0o001), None)
        if closed is None and (_opens_kvm() or _is_kvm_useless()):
            return _QEMU_USER
        LOG.warning("QEMU runs as root, as %s is closed to its own user, %s", closed or _KVM, _QEMU_USER)
        return "root"

    def _script(self, user: str) -> str:
        """What runs inside the new namespaces. A network namespace needs its own /sys, with the host's cgroups in it."""
        base = shlex.quote(str(self._directory))
        lines = [f"export PATH={shlex.quote(_path())}", f"hostname {shlex.quote(self._hostname)}"]
        if self._netns:
            lines += [f"mkdir -p {base}/cgroup", f"mount --rbind /sys/fs/cgroup {base}/cgroup", "mount -t sysfs sysfs /sys",
                      f"mount --move {base}/cgroup /sys/fs/cgroup"]
        # libvirt resolves its own host name often, also while a guest is stopped; no name server has it
        lines += [f"{{ echo 127.0.1.1 {shlex.quote(self._hostname)}; cat /etc/hosts; }} > {base}/hosts",
                  f"mount --bind {base}/hosts /etc/hosts"]
        for name, target in _BOUND.items():
            lines += [f"mkdir -p {target}", f"mount --bind {base}/{name} {target}"]
        if user == _QEMU_USER and not _opens_kvm():
            # libvirt would probe QEMU again and again, since it does so with other rights than those of guests
            lines.append(f"touch {base}/kvm && chmod 0600 {base}/kvm && mount --bind {base}/kvm {_KVM}")
        if self.pid("virtlogd") is None:        # a virtlogd that runs keeps the logs of running guests
            lines.append(f"virtlogd -d -p {base}/run/virtlogd.pid")
        lines.append(f"libvirtd -d -f /etc/libvirt/libvirtd.conf -p {base}/run/libvirtd.pid")
        return "\n".join(lines)

    def _wait(self) -> None:
        if not retry.poll(lambda: _answers(self.uri), bool, retry.every(0.1, timeout=START_TIMEOUT)):
            raise exception.ConfigError(reason=f"libvirtd does not answer after {START_TIMEOUT:.0f} seconds: see "
                                               f"{self._directory}/log")

    def _end_daemons(self) -> None:
        for name in reversed(_DAEMONS):
            self._end(name)

    def _end(self, name: str) -> None:
        pid = self.pid(name)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            _wait_for_end(pid, name)

    def pid(self, name: str) -> int | None:
        """The process of libvirtd or virtlogd, if it runs."""
        try:
            pid = int((self._directory / "run" / f"{name}.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if _runs(pid, name) else None


def _path() -> str:
    """The daemons are in sbin, which may not be in PATH."""
    return os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"


def _runs(pid: int, name: str) -> bool:
    """Whether ``pid`` is the program ``name``: after a reboot the number may belong to another process, and a process that has
    ended keeps it until its parent has read its status."""
    try:
        found, _, state = pathlib.Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(") ")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return found == name and not state.startswith("Z")


def _wait_for_end(pid: int, name: str, timeout: float = 10.0) -> None:
    if retry.poll(lambda: _runs(pid, name), operator.not_, retry.every(0.05, timeout=timeout)):
        os.kill(pid, signal.SIGKILL)


def _ensure_qemu_user() -> None:
    """Create the user that libvirtd looks up before it reads qemu.conf; the package that has it needs systemd."""
    try:
        grp.getgrnam(_QEMU_USER)
        pwd.getpwnam(_QEMU_USER)
    except KeyError:
        of_kvm = ["--groups", "kvm"] if any(group.gr_name == "kvm" for group in grp.getgrall()) else []
        subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", "--home-dir",  # noqa: S603, S607
                        "/nonexistent", "--shell", "/usr/sbin/nologin", *of_kvm, _QEMU_USER], check=True)


def _opens_kvm() -> bool:
    """Whether QEMU's user may open /dev/kvm; also true where there is none."""
    try:
        found = os.stat(_KVM)
    except FileNotFoundError:
        return True
    user = pwd.getpwnam(_QEMU_USER)
    is_member = found.st_gid in os.getgrouplist(_QEMU_USER, user.pw_gid)
    return found.st_mode & 0o006 == 0o006 or is_member and found.st_mode & 0o060 == 0o060


def _is_kvm_useless() -> bool:
    return bool(virt_type.missing(os.uname().machine, {virt_type.KVM}))


def _answers(uri: str) -> bool:
    return concurrency.native(_try, load_libvirt(), uri)


def _try(libvirt: Any, uri: str) -> bool:
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    try:
        libvirt.open(uri).close()
    except libvirt.libvirtError:
        return False
    return True


def _destroy_all(libvirt: Any, uri: str) -> None:
    connection = libvirt.open(uri)
    for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
        with contextlib.suppress(libvirt.libvirtError):     # ended by itself meanwhile
            domain.destroy()
    connection.close()
