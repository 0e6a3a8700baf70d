"""The fake hypervisor: guests are entries of a dictionary, kept in a file if they have to outlive the process, as real guests
do.

``[fake] delay`` makes each operation slow, ``[fake] fail`` makes operations fail. Tests and benchmarks use it to observe the
control plane.
"""
from __future__ import annotations

import contextlib
import json
import pathlib
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

from nova_lite import durable, exception
from nova_lite.objects import hardware
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.console import Console
from nova_lite.objects.diagnostics import NIC, Diagnostics
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.guest_moves import DiskOffer
from nova_lite.objects.hardware import disk_encryption, pci
from nova_lite.objects.hardware.pci import PciDevice
from nova_lite.objects.hardware.placement import HostCell
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.objects.share import ShareAttachment
from nova_lite.objects.states import NOSTATE, POWER_NAMES, POWER_PAUSED, RUNNING, SHUTDOWN
from nova_lite.virt import host_uptime
from nova_lite.virt.driver import Checker, DiskCopy, Fetcher, GuestFiles, Inventory, Noter, PowerCallback, Waiter, wanted
from nova_lite.virt.fake_live import FakeLiveMigrations

CONSOLE_LINES = 20
ASIDE = "_resize"       # after the uuid: a guest that was set aside


class FakeDriver:
    """See :class:`nova_lite.virt.driver.ComputeDriver`."""

    def __init__(self, conf: cfg.ConfigOpts, host: str) -> None:
        self.conf, self.host = conf, host
        self._guests: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._images: dict[str, threading.Lock] = {}
        self._fetched: set[str] = set()
        self._file = pathlib.Path(f"{conf.fake.state_file}.{host}") if conf.fake.state_file else None
        self._pci_devices = pci.offered((PciDevice.from_primitive(json.loads(text)) for text in conf.fake.pci_devices),
                                        pci.device_specs(conf.pci.device_spec))
        self.live = FakeLiveMigrations(self, self._act, self._set)

    def init_host(self, on_power_change: PowerCallback) -> None:
        """Find the guests of the run before."""
        if self._file is not None and self._file.exists():
            self._guests = json.loads(self._file.read_text())

    def stop_host(self) -> None:
        """Nothing holds anything."""

    def inventory(self) -> Inventory:
        """The values of ``[fake]``."""
        fake = self.conf.fake
        return Inventory(
            hypervisor_hostname=self.host, hypervisor_type="fake", hypervisor_version=1000, vcpus=fake.vcpus,
            memory_mb=fake.memory_mb, local_gb=fake.disk_gb, disk_available_least=fake.disk_gb, free_disk_gb=fake.disk_gb,
            cpu_info={"vendor": "nova-lite", "model": "fake", "arch": "x86_64", "features": [],
                      "topology": {"cores": 1, "threads": 1, "sockets": fake.vcpus}},
            supported_instances=[["x86_64", "fake", "hvm"], ["x86_64", "qemu", "hvm"], ["x86_64", "kvm", "hvm"]],
            traits=["COMPUTE_STORAGE_VIRTIO_FS", "COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_2_0", hardware.UEFI,
                    hardware.SECURE_BOOT, disk_encryption.TRAIT, disk_encryption.LUKS_TRAIT],
            numa_topology=_cells(fake.vcpus, fake.memory_mb),
            pci_devices=[device.to_primitive() for device in self._pci_devices])

    def uptime(self) -> str | None:
        """That of the machine that plays the host."""
        return host_uptime.line()

    def power_states(self) -> dict[str, int]:
        """All guests."""
        with self._lock:
            return {uuid: guest["power_state"] for uuid, guest in self._guests.items() if "power_state" in guest
                    and not uuid.endswith(ASIDE)}

    def knows(self, name: str) -> bool:
        """Whether there is a guest, or a mark of one, by this name."""
        with self._lock:
            return name in self._guests

    def power_state(self, instance: Instance) -> int | None:
        """One guest."""
        return self.power_states().get(instance.uuid)

    def spawn(self, instance: Instance, network_info: list[VIF], files: GuestFiles, fetch_image: Fetcher,
              wait_for_network: Waiter | None = None, check: Checker = wanted) -> None:
        """Add a running guest."""
        self._act("spawn", instance)
        if self.conf.fake.fetch_images and instance.image is not None and instance.image.id:
            self._fetch(instance.image.id, fetch_image)
        if wait_for_network is not None:
            wait_for_network()
        check()
        self._set(instance.uuid, {"power_state": RUNNING, "name": instance.display_name})

    def check_spawn(self, instance: Instance, network_info: list[VIF]) -> None:
        """Any guest can be."""
        self._act("check_spawn", instance)

    def cache_image(self, image: ImageMeta, fetch_image: Fetcher) -> None:
        """As a build would fetch it."""
        if self.conf.fake.fetch_images:
            self._fetch(image.id, fetch_image)

    def _fetch(self, image_id: str, fetch_image: Fetcher) -> None:
        """Once per image; nothing is kept of it but that it was there."""
        with self._lock:
            lock = self._images.setdefault(image_id, threading.Lock())
        with lock:
            if image_id not in self._fetched:
                with tempfile.TemporaryDirectory() as directory:
                    fetch_image(image_id, f"{directory}/image")
                self._fetched.add(image_id)

    def tidy(self) -> None:
        """Nothing is kept."""

    def clear(self, instance: Instance, network_info: list[VIF], keep_ephemeral: bool) -> None:
        """Forget a guest for a moment."""
        self._act("clear", instance)
        self._set(instance.uuid, None)

    def destroy(self, instance: Instance, network_info: list[VIF]) -> None:
        """Forget a guest."""
        self._act("destroy", instance)
        self._set(instance.uuid, None)
        self._set(instance.uuid + ASIDE, None)

    def power_on(self, instance: Instance, network_info: list[VIF]) -> None:
        """Run a guest again."""
        self._change("power_on", instance, RUNNING)

    def power_off(self, instance: Instance, timeout: int) -> None:
        """A fake guest obeys at once."""
        self._change("power_off", instance, SHUTDOWN)

    def reboot(self, instance: Instance, network_info: list[VIF], hard: bool, timeout: int) -> None:
        """Ends running. A hard reboot makes a lost guest again, as a real driver defines the domain again."""
        self._act("reboot", instance)
        if not hard:
            self._known("reboot", instance)
        self._set(instance.uuid, {"power_state": RUNNING, "name": instance.display_name})

    def rescue(self, instance: Instance, network_info: list[VIF], image: ImageMeta, files: GuestFiles,
               fetch_image: Fetcher) -> None:
        """Running, from another disk."""
        self._act("rescue", instance)
        if self.conf.fake.fetch_images:
            self._fetch(image.id, fetch_image)
        self._set(instance.uuid, {"power_state": RUNNING, "name": instance.display_name, "rescued": True})

    def is_rescued(self, instance: Instance) -> bool:
        """As long as nothing else was done with it."""
        guest = self._guests.get(instance.uuid, {})
        return guest.get("power_state") == RUNNING and bool(guest.get("rescued"))

    def unrescue(self, instance: Instance, network_info: list[VIF]) -> None:
        """Running, from its own."""
        self._act("unrescue", instance)
        self._set(instance.uuid, {"power_state": RUNNING, "name": instance.display_name})

    def volume_connector(self) -> dict[str, Any]:
        """A connector that every backend takes."""
        return {"host": self.host, "ip": self.conf.my_ip, "initiator": f"iqn.2026-11.fake:{self.host}", "multipath": False,
                "os_type": "linux", "platform": "x86_64"}

    def connect_volume(self, instance: Instance, device: BlockDevice, connection_info: dict[str, Any]) -> dict[str, Any]:
        """Any type is accepted; fields that may be secret are left out."""
        self._act("connect_volume", instance)
        data = {k: v for k, v in connection_info.get("data", {}).items()
                if not any(word in k for word in ("password", "secret", "keyring"))}
        return {**connection_info, "data": data}

    def disconnect_volume(self, instance: Instance, device: BlockDevice) -> None:
        """Nothing was prepared."""
        self._act("disconnect_volume", instance)

    def attach_volume(self, instance: Instance, device: BlockDevice) -> None:
        """A fake guest takes any volume."""
        self._act("attach_volume", instance)
        self._known("attach_volume", instance)

    def detach_volume(self, instance: Instance, device: BlockDevice) -> None:
        """And lets it go at once."""
        self._act("detach_volume", instance)

    def swap_volume(self, instance: Instance, old: BlockDevice, new: BlockDevice, note: Noter) -> None:
        """A fake guest has no data."""
        self._act("swap_volume", instance)
        self._known("swap_volume", instance)
        note(new)

    def snapshot_volume(self, instance: Instance, device: BlockDevice, info: dict[str, Any]) -> None:
        """There are no files."""
        self._act("snapshot_volume", instance)

    def merge_volume_snapshot(self, instance: Instance, device: BlockDevice, info: dict[str, Any]) -> None:
        """There are none."""
        self._act("merge_volume_snapshot", instance)

    def extend_volume(self, instance: Instance, device: BlockDevice, size: int) -> None:
        """And sees it grow."""
        self._act("extend_volume", instance)

    def mount_share(self, instance: Instance, share: ShareAttachment) -> None:
        """There are no files."""
        self._act("mount_share", instance)

    def unmount_share(self, instance: Instance, share: ShareAttachment) -> None:
        """There are none."""
        self._act("unmount_share", instance)

    def attach_interface(self, instance: Instance, vif: VIF) -> None:
        """A fake guest takes any nic."""
        self._act("attach_interface", instance)
        self._known("attach_interface", instance)

    def detach_interface(self, instance: Instance, vif: VIF) -> None:
        """And lets it go at once."""
        self._act("detach_interface", instance)

    def check_resize(self, instance: Instance, flavor: Flavor) -> None:
        """There are no disks that could be too large."""
        self._act("check_resize", instance)

    def set_aside(self, instance: Instance, network_info: list[VIF], timeout: int, move: str) -> None:
        """The guest gets another name."""
        self._act("set_aside", instance)
        guest = self._guests.get(instance.uuid)
        if not self.has_aside(instance, move) and guest is not None:
            self._set(instance.uuid + ASIDE, {**guest, "power_state": SHUTDOWN, "move": move})
            self._set(instance.uuid, None)

    def has_aside(self, instance: Instance, move: str) -> bool:
        """By the move that is noted with it."""
        return self._guests.get(instance.uuid + ASIDE, {}).get("move") == move

    def offer_disks(self, instance: Instance) -> DiskOffer:
        """There is nothing to copy."""
        self._act("offer_disks", instance)
        self._known("offer_disks", instance, ASIDE)
        self._set(instance.uuid + ASIDE, {**self._guests[instance.uuid + ASIDE], "is_offered": True})
        return DiskOffer(self.conf.my_ip, 0)

    def offers_disks(self, instance_uuid: str) -> bool:
        """Nothing is served, but the offer is noted."""
        return bool(self._guests.get(instance_uuid + ASIDE, {}).get("is_offered"))

    def withdraw_disks(self, instance: Instance) -> None:
        """The note is removed."""
        if self.offers_disks(instance.uuid):
            self._set(instance.uuid + ASIDE, {**self._guests[instance.uuid + ASIDE], "is_offered": False})

    def receive_guest(self, instance: Instance, offer: DiskOffer | None, fetch_image: Fetcher, move: str,
                      check: Checker = wanted) -> None:
        """There is nothing to copy."""
        self._act("receive_guest", instance)
        check()

    def finish_move(self, instance: Instance, network_info: list[VIF], fetch_image: Fetcher, power_on: bool,
                    wait_for_network: Waiter | None = None) -> None:
        """A new guest."""
        self._act("finish_move", instance)
        if wait_for_network is not None:
            wait_for_network()
        self._set(instance.uuid, {"power_state": RUNNING if power_on else SHUTDOWN, "name": instance.display_name})

    def drop_received(self, instance: Instance, network_info: list[VIF], is_local: bool, move: str) -> None:
        """It goes again."""
        self._act("drop_received", instance)
        if not is_local or self.has_aside(instance, move):
            self._set(instance.uuid, None)

    def bring_back(self, instance: Instance, network_info: list[VIF], power_on: bool, move: str,
                   wait_for_network: Waiter | None = None) -> None:
        """The guest that was set aside is the guest again."""
        self._act("bring_back", instance)
        if wait_for_network is not None:
            wait_for_network()
        self._set(instance.uuid, {"power_state": RUNNING if power_on else SHUTDOWN, "name": instance.display_name})
        self._set(instance.uuid + ASIDE, None)

    def drop_aside(self, instance: Instance) -> None:
        """It is forgotten."""
        self._act("drop_aside", instance)
        self._set(instance.uuid + ASIDE, None)

    def left_behind(self) -> set[str]:
        """The servers that were set aside; a copy is never half done."""
        with self._lock:
            return {name.removesuffix(ASIDE) for name in self._guests if name.endswith(ASIDE)}

    def drop_left_behind(self, instance_uuid: str) -> None:
        """It is forgotten."""
        self._set(instance_uuid + ASIDE, None)

    def unplugged(self) -> set[str]:
        """There are no bridges."""
        return set()

    def plug(self, instance: Instance, network_info: list[VIF]) -> None:
        """There are no bridges."""
        self._act("plug", instance)

    @contextlib.contextmanager
    def snapshot(self, instance: Instance, check: Checker = wanted) -> Iterator[DiskCopy]:
        """A few bytes that name the guest."""
        self._act("snapshot", instance)
        self._known("snapshot", instance)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "snapshot")
            path.write_text(f"disk of {instance.uuid}\n")
            yield DiskCopy(str(path), "raw")

    def quiesce(self, instance: Instance) -> None:
        """A fake guest writes nothing."""
        self._act("quiesce", instance)
        self._known("quiesce", instance)

    def unquiesce(self, instance: Instance) -> None:
        """Nothing is frozen."""
        self._act("unquiesce", instance)

    def pause(self, instance: Instance) -> None:
        """Paused."""
        self._change("pause", instance, POWER_PAUSED)

    def unpause(self, instance: Instance) -> None:
        """Running."""
        self._change("unpause", instance, RUNNING)

    def suspend(self, instance: Instance) -> None:
        """As managed save: the guest's process is gone."""
        self._change("suspend", instance, SHUTDOWN)

    def resume(self, instance: Instance, network_info: list[VIF]) -> None:
        """Running."""
        self._change("resume", instance, RUNNING)

    def console_output(self, instance: Instance, length: int | None) -> str:
        """A few lines that name the guest; empty without a guest, as a guest that never ran has no log."""
        if instance.uuid not in self._guests:
            return ""
        lines = [f"fake guest {instance.display_name}: line {n}" for n in range(1, CONSOLE_LINES)]
        lines.append(f"{instance.hostname or instance.uuid} login:")
        return "\n".join(lines if length is None else lines[-length:] if length > 0 else [])

    def console(self, instance: Instance, protocol: str) -> Console:
        """The answer of Nova's fake driver."""
        if self.power_state(instance) is None:
            raise exception.InstanceNotFound(instance_id=instance.uuid)
        # Nova's fake serial console is on the host of the RDP consoles that there were once
        host = "fakerdpconsole.com" if protocol == "serial" else f"fake{protocol}console.com"
        if protocol == "spice":
            return Console(host, 6969, tls_port=6970)
        return Console(host, 6969, internal_access_path="FAKE")

    def check_admin_password(self, instance: Instance) -> None:
        """Every fake guest can."""

    def set_admin_password(self, instance: Instance, password: str) -> None:
        """Nobody will ever ask for it."""
        self._act("set_admin_password", instance)
        self._known("set_admin_password", instance)

    def trigger_crash_dump(self, instance: Instance) -> None:
        """A fake kernel has nothing to dump."""
        self._act("trigger_crash_dump", instance)
        self._known("trigger_crash_dump", instance)

    def device_addresses(self, instance: Instance) -> dict[str, str]:
        """One PCI slot after the other, as in a guest without other devices."""
        keys = [vif.mac_address.lower() for vif in instance.network_info] + [device.id for device in instance.block_devices]
        return {key: f"0000:00:{slot:02x}.0" for slot, key in enumerate(keys, 3)}

    def diagnostics(self, instance: Instance) -> Diagnostics:
        """Plausible numbers; the clients' schemas allow this ``driver``."""
        self._known("diagnostics", instance)
        disk = {"read_bytes": 262144, "read_requests": 112, "write_bytes": 5778432, "write_requests": 488, "errors_count": 0}
        nic = {"rx_octets": 2070139, "rx_packets": 26701, "tx_octets": 140208, "tx_packets": 662}
        return Diagnostics(
            state=POWER_NAMES[self.power_state(instance) or NOSTATE], driver="libvirt", hypervisor="fake",
            hypervisor_os="linux", uptime=46664, config_drive=instance.config_drive, memory_maximum=instance.memory_mb,
            memory_used=0,
            cpus=[{"id": number, "time": 17300000000, "utilisation": 15} for number in range(instance.vcpus)],
            disks=[{"name": "vda", **disk}],
            nics=[{"name": vif.devname, "mac_address": vif.mac_address, **dict.fromkeys(NIC, 0), **nic}
                  for vif in instance.network_info])

    def _change(self, operation: str, instance: Instance, power_state: int) -> None:
        self._act(operation, instance)
        self._known(operation, instance)
        self._set(instance.uuid, {"power_state": power_state, "name": instance.display_name})

    def _known(self, operation: str, instance: Instance, suffix: str = "") -> None:
        if instance.uuid + suffix not in self._guests:
            raise exception.DriverRefusal(what=operation, reason=f"the hypervisor has no guest {instance.uuid}")

    def _act(self, operation: str, instance: Instance) -> None:
        """Take as long as ``[fake] delay``, then fail if ``[fake] fail`` says so."""
        if self.conf.fake.delay and operation:      # one without a name takes no time
            time.sleep(self.conf.fake.delay)
        for rule in self.conf.fake.fail:
            name, _, probability = rule.partition(":")
            name, _, host = name.partition("@")
            if name == operation and host in ("", self.host) and random.random() < float(probability or 1):
                reason = f"[fake] fail = {rule} on {self.host}"
                if operation == "spawn":
                    raise exception.BuildFailed(instance_id=instance.uuid, reason=reason)
                raise exception.DriverRefusal(what=operation, reason=reason)

    def _set(self, uuid: str, guest: dict[str, Any] | None) -> None:
        with self._lock:
            if guest is None:
                self._guests.pop(uuid, None)
            else:
                self._guests[uuid] = guest
            if self._file is not None:
                with durable.written_whole(self._file, mode=0o644, sync=False) as part:
                    part.write_text(json.dumps(self._guests))


def _cells(vcpus: int, memory_mb: int) -> list[dict[str, Any]]:
    """Two NUMA nodes, half of their memory in huge pages. Nothing is ever in use: fake guests are bound to nothing."""
    each, memory = vcpus // 2, memory_mb // 2
    pages = {2048: memory // 8, 1048576: memory // 4096}
    return [HostCell(number, tuple(range(number * each, (number + 1) * each)), memory, pages=pages).to_primitive()
            for number in range(2) if each]
