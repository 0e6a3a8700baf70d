"""Whether a host can take a guest that runs elsewhere: refusals say why, before anything is done."""
from __future__ import annotations

import contextlib
import pathlib
import re
import urllib.parse
from typing import Any

from nova_lite import exception, units
from nova_lite.objects import hardware
from nova_lite.objects.guest_moves import SourceFacts
from nova_lite.objects.instance import Instance
from nova_lite.virt.driver import Inventory
from nova_lite.virt.libvirt import disks
from nova_lite.virt.libvirt.connection import Connection
from nova_lite.virt.libvirt.files import GuestDirectory
from nova_lite.virt.libvirt.ownership import rule

TOKEN = "migration-token"       # noqa: S105  a file name
_SCHEMES = frozenset({"qemu", *(f"qemu+{by}" for by in ("unix", "tcp", "tls", "ssh", "libssh", "libssh2"))})
_PARAMETERS = frozenset({"name", "socket", "mode", "no_verify", "pkipath", "tls_priority", "no_tty", "keyfile", "sshauth",
                         "known_hosts", "known_hosts_verify", "netcat", "proxy"})


def is_shared(files: GuestDirectory, there: SourceFacts) -> bool:
    """Whether this host sees the file that the source has just written. Raises MigrationPreCheckError where that cannot be
    checked."""
    try:
        return bool(there.token) and (files.path / TOKEN).read_text() == there.token
    except FileNotFoundError:
        return False
    except OSError as error:
        text = "it is not known whether the hosts share directories"
        raise exception.MigrationPreCheckError(reason=f"{text}: {error}",
                                               public=f"Migration pre-check error: {text}") from error


def check_disks(maker: disks.DiskMaker, instance: Instance, files: GuestDirectory) -> None:
    """Raise MigrationPreCheckError for disks that this host would not open again."""
    try:
        maker.check(instance, files)
    except (OSError, exception.VirtDriverError) as error:
        text = "its host does not open its disks any more"
        raise exception.MigrationPreCheckError(reason=f"{text}: {error}",
                                               public=f"Migration pre-check error: {text}") from error


def refuse_shared(files: GuestDirectory, host: str) -> None:
    """Raise MigrationPreCheckError for the directory of another host's guest: a file system was mounted since the check."""
    record = files.record
    if not rule(record, host).replaces:
        raise exception.MigrationPreCheckError(reason=f"{files.path} is that of the guest on host {record.host or '(none)'}, "
                                                      "though the check has found that the hosts do not share directories",
                                               public="Migration pre-check error: the hosts share directories")


def check_uri(uri: str) -> None:
    """The other host says how libvirt of this one, which is root, reaches it. It may name no program of this host, as the
    transport ext and the parameter command do. Raises MigrationPreCheckError."""
    parts = urllib.parse.urlsplit(uri)
    names = {urllib.parse.unquote(one.partition("=")[0]).lower() for one in re.split("[&;]", parts.query) if one}
    if parts.scheme not in _SCHEMES or not names <= _PARAMETERS:
        raise exception.MigrationPreCheckError(reason=f"this host does not connect to {uri!r} ([libvirt] live_migration_uri)",
                                               public="Migration pre-check error: the source does not connect to the new host")


def forget(files: GuestDirectory, token: str) -> None:
    """Remove the file with this token; a later attempt may have replaced it."""
    path = files.path / TOKEN
    with contextlib.suppress(FileNotFoundError):
        if path.read_text() == token:
            path.unlink()


def check_host(connection: Connection, here: Inventory, there: SourceFacts) -> None:
    """Hypervisor, machine type and CPU. Raises InvalidHypervisorType, DestinationHypervisorTooOld, MigrationPreCheckError or
    InvalidCPUInfo."""
    if here.hypervisor_type != there.hypervisor_type:
        raise exception.InvalidHypervisorType()
    if here.hypervisor_version < there.hypervisor_version:
        raise exception.DestinationHypervisorTooOld()

    def ask(c: Any) -> int:
        c.getDomainCapabilities(None, there.arch, there.machine, there.virt_type)
        return c.compareHypervisorCPU(None, there.arch, there.machine, there.virt_type, there.cpu) if there.cpu else 1

    try:
        answer = connection.run(ask)
    except exception.VirtDriverError as error:
        text = f"host {here.hypervisor_hostname} cannot run {there.virt_type} guests of machine type {there.machine}"
        raise exception.MigrationPreCheckError(
            reason=f"{text}: {error}", public=f"Migration pre-check error: the host cannot run {there.virt_type} guests of "
                                              f"machine type {there.machine}") from error
    if answer == connection.libvirt.VIR_CPU_COMPARE_INCOMPATIBLE:
        raise exception.InvalidCPUInfo(reason=f"the CPU of host {here.hypervisor_hostname} has not all that the guest's has")


def check_storage(instance: Instance, root: pathlib.Path, there: SourceFacts, shared: bool, block: bool | None,
                  over_commit: bool, pool: str = "") -> bool:
    """Whether disks are to be copied. Raises InvalidLocalStorage, InvalidSharedStorage or MigrationPreCheckError."""
    if there.disks and there.pool != pool:
        raise exception.MigrationPreCheckError(reason=f"its disks are {there.pool or 'files'}, but those of this host are "
                                                      f"{pool or 'files'} ([libvirt] images_type)")
    shared = shared or bool(there.disks and there.pool)
    if shared and block:
        raise exception.InvalidLocalStorage(reason="Block migration can not be used with shared storage.", path=str(root))
    if not there.disks:
        return False
    if shared:
        return False
    if block is False:
        raise exception.InvalidSharedStorage(reason="Live migration can not be used without shared storage except a booted "
                                                    "from volume VM which does not have a local disk.", path=str(root))
    needed = sum(d["used" if over_commit else "size"] for d in there.disks)
    free = disks.free_space(root)[1]
    if hardware.encrypts_disks(instance.flavor, instance.image):
        raise exception.MigrationPreCheckError(reason="its disks are encrypted, and not copied while it runs: it can be "
                                                      "migrated cold")
    if free < needed:
        raise exception.MigrationPreCheckError(
            reason=f"Unable to migrate {instance.uuid}: Disk of instance is too large(available on destination host:"
                   f"{free / units.GiB:.1f} GiB < need:{needed / units.GiB:.1f} GiB)")
    return True
