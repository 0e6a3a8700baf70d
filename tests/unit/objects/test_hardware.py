"""What flavor and image ask of a guest's hardware: which of it can be, what comes of it, and where it fits on a host."""
import json

import pytest

from nova_lite import exception
from nova_lite.objects import hardware
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.hardware import cpu, devices, numa, placement
from nova_lite.objects.hardware.asked import Asked, as_ranges, ranges
from nova_lite.objects.hardware.placement import HostCell
from nova_lite.objects.image import ImageMeta


def asked(specs=None, properties=None, vcpus=4, memory_mb=1024):
    return Asked(Flavor("1", "f", memory_mb, vcpus, 1, extra_specs=specs or {}), ImageMeta("i", properties=properties or {}))


@pytest.mark.parametrize(("specs", "properties", "vcpus", "expected"), [
    ({}, {}, 4, (4, 1, 1)), ({"hw:cpu_sockets": "2"}, {}, 4, (2, 2, 1)), ({"hw:cpu_threads": "2"}, {}, 4, (2, 1, 2)),
    ({}, {"hw_cpu_cores": 4}, 4, (1, 4, 1)), ({"hw:cpu_cores": "2"}, {"hw_cpu_cores": "4"}, 4, (2, 2, 1)),
    ({"hw:cpu_max_sockets": "1"}, {}, 4, (1, 4, 1)), ({}, {"hw_cpu_max_sockets": "1", "hw_cpu_max_cores": "2"}, 4, (1, 2, 2)),
    ({"hw:cpu_cores": "3"}, {}, 4, (4, 1, 1)),      # a wish that cannot come true
    ({"hw:cpu_sockets": "1", "hw:cpu_cores": "3"}, {}, 6, (1, 3, 2))])
def test_the_topology_that_fits_best(specs, properties, vcpus, expected):
    assert cpu.topology(asked(specs, properties, vcpus)) == expected


@pytest.mark.parametrize(("specs", "properties", "reason"), [
    ({"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "1", "hw:cpu_max_threads": "2"}, {}, "4 vcpus cannot"),
    ({"hw:cpu_max_cores": "2"}, {"hw_cpu_max_cores": "4"}, "exceeds hw:cpu_max_cores=2"),
    ({"hw:cpu_max_cores": "2"}, {"hw_cpu_cores": "4"}, "exceeds the limit 2"),
    ({"hw:cpu_cores": "many"}, {}, "hw:cpu_cores=many"),
    ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}, "not permitted to override CPU pinning"),
    ({"hw:cpu_policy": "mixed"}, {}, "mixed"), ({"hw:cpu_thread_policy": "require"}, {}, "non dedicated"),
    ({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"}, {"hw_cpu_thread_policy": "require"}, "thread"),
    ({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"}, {}, "emulator"),
    ({"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "plain"}, {}, "ephemeral_encryption_format=plain"),
    ({"hw:ephemeral_encryption": "true"}, {"hw_ephemeral_encryption_format": "plain"}, "ephemeral_encryption_format=plain"),
    ({"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_format": "luks"}, {"hw_ephemeral_encryption_format": "plain"},
     "hw_ephemeral_encryption_format=plain"),
    ({"hw:ephemeral_encryption": "false"}, {"hw_ephemeral_encryption": True}, "Flavor f asks for hw:ephemeral_encr"),
    ({}, {"hw_ephemeral_encryption_secret_uuid": "5ba4ed00-0000-4000-8000-000000000001"}, "images that are encrypted"),
    ({"hw:cpu_realtime": "yes"}, {}, "realtime"), ({"hw:mem_encryption": "true"}, {}, "encrypted memory"),
    ({}, {"hw_mem_encryption": True}, "encrypted memory"), ({}, {"hw_sound_model": "ich9"}, "no sound"),
    ({"pci_passthrough:alias": "gpu:2", "hw:pci_numa_affinity_policy": "required"}, {}, "not chosen by their NUMA node"),
    ({"accel:device_profile": "x"}, {}, "accelerator"),
    ({"trait:HW_CPU_X86_AVX2": "required"}, {}, "trait:HW_CPU_X86_AVX2=required: there is no Placement"),
    ({"trait_net1:CUSTOM_FAST": "required"}, {}, "trait_net1:CUSTOM_FAST"), ({"resources:VGPU": "1"}, {}, "resources:VGPU=1"),
    ({"group_policy": "none"}, {}, "group_policy"), ({}, {"hw_numa_nodes": "9" * 5000}, "image: hw_numa_nodes has a number"),
    ({"hw:cpu_sockets": "1" * 21}, {}, "flavor f: hw:cpu_sockets has a number of more than 20 digits"),
    ({"quota:cpu_shares": "1" * 30}, {}, "quota:cpu_shares has a number"),
    ({"capabilities:cpu_info:features": "avx"}, {}, "capabilities:cpu_info:features=avx"),
    ({}, {"trait:CUSTOM_GPU": "required"}, "image: trait:CUSTOM_GPU"),
    ({"hw:numa_nodes": "3"}, {}, "cannot be evenly distributed"), ({"hw:numa_nodes": "8"}, {}, "4 vcpus cannot be divided"),
    ({"hw:numa_nodes": "2"}, {"hw_numa_nodes": "1"}, "not permitted to override NUMA"),
    ({"hw:numa_nodes": "2", "hw:numa_cpus.0": "0-1"}, {}, "must be provided for all"),
    ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-4", "hw:numa_mem.0": "1024"}, {}, "larger than max 3"),
    ({"hw:numa_nodes": "2", "hw:numa_cpus.0": "0-2", "hw:numa_cpus.1": "2-3", "hw:numa_mem.0": "512", "hw:numa_mem.1": "512"},
     {}, "CPU number 2 is assigned to two"),
    ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-2", "hw:numa_mem.0": "1024"}, {}, "not assigned"),
    ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "1000"}, {}, "1000 MB of memory assigned"),
    ({"hw:numa_nodes": "1", "hw:numa_mem.1": "1000"}, {}, "NUMA node 1"),
    ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "x", "hw:numa_mem.0": "1024"}, {}, "not a list of CPUs"),
    ({"hw:mem_page_size": "huge"}, {}, "Invalid memory page size 'huge'"),
    ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "2MB"}, "forbidden"), ({}, {"hw_mem_page_size": "2MB"}, "forbidden"),
    ({"hw:tpm_model": "tpm-crb"}, {}, "needs hw:tpm_version"), ({"hw:tpm_version": "3"}, {}, "hw:tpm_version=3"),
    ({"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"}, {}, "not there in version 1.2"),
    ({"hw:tpm_version": "1.2"}, {"hw_tpm_version": "2.0"}, "Flavor f asks for hw:tpm_version=1.2, the image"),
    ({"os:secure_boot": "required"}, {}, "hw_firmware_type=uefi"),
    ({"os:secure_boot": "required"}, {"os_secure_boot": "disabled", "hw_firmware_type": "uefi"}, "Secure boot is required for"),
    ({"hw:watchdog_action": "explode"}, {}, "hw:watchdog_action=explode"),
    ({}, {"hw_watchdog_action": "x"}, "hw_watchdog_action=x"),
    ({"hw_video:ram_max_mb": "8"}, {"hw_video_ram": "16"}, "higher than the maximum"),
    ({}, {"hw_video_ram": 1}, "higher than the"),
    ({"hw:serial_port_count": "1"}, {"hw_serial_port_count": "2"}, "2 serial ports"),
    ({"hw:vif_multiqueue_enabled": "false"}, {"hw_vif_multiqueue_enabled": "true"}, "Flavor f asks for hw:vif_multiqueue"),
    ({}, {"hw_disk_bus": "floppy"}, "Invalid image metadata. Error: hw_disk_bus=floppy"),
    ({}, {"hw_machine_type": "a b"}, "hw_machine_type=a b"), ({}, {"hw_firmware_type": "coreboot"}, "hw_firmware_type"),
    ({"hw_rng:rate_bytes": "-1"}, {}, "hw_rng:rate_bytes=-1"), ({"quota:cpu_shares": "many"}, {}, "quota:cpu_shares=many"),
    ({"quota:disk_total_iops_sec": "1", "quota:disk_read_iops_sec": "1"}, {}, "only one is possible"),
    ({"quota:vif_inbound_peak": "1"}, {}, "need quota:vif_inbound_average")])
def test_a_guest_that_cannot_be_is_a_bad_request(specs, properties, reason):
    both = asked(specs, properties)
    with pytest.raises(exception.Invalid) as caught:
        hardware.check(both.flavor, both.image)
    assert reason in caught.value.message
    assert caught.value.code == 400


@pytest.mark.parametrize(("specs", "properties"), [
    ({}, {}), ({"hw:mem_encryption": "false", "hw:cpu_realtime": "no", "hw:cpu_policy": "shared", "hw:pmem": ""}, {}),
    ({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"}, {"hw_cpu_thread_policy": "isolate"}),
    ({"hw:mem_page_size": "large"}, {"hw_mem_page_size": "2MB"}), ({"quota:cpu_quota": "-1"}, {}),
    ({"hw:x": "1", "my:own": "2"}, {"anything": "else", "hw_vif_model": "VIRTIO"})])
def test_what_is_possible_passes(specs, properties):
    both = asked(specs, properties)
    hardware.check(both.flavor, both.image)


def test_nodes_are_even_or_as_they_were_written_down():
    assert numa.demand(asked()) is None
    even = numa.demand(asked({"hw:numa_nodes": "2"}))
    assert [(c.cpus, c.memory_mb) for c in even.cells] == [((0, 1), 512), ((2, 3), 512)]
    uneven = numa.demand(asked({"hw:numa_nodes": "2", "hw:numa_cpus.0": "0,2-3", "hw:numa_mem.0": "768"},
                               {"hw_numa_cpus.1": "1", "hw_numa_mem.1": 256}))
    assert [(c.cpus, c.memory_mb) for c in uneven.cells] == [((0, 2, 3), 768), ((1,), 256)]
    assert len(numa.demand(asked({"hw:cpu_policy": "dedicated"})).cells) == 1
    assert [numa.demand(asked({"hw:mem_page_size": text})).page_size for text in ("large", "2048", "2MB", "1GB", "ANY")] == [
        "large", 2048, 2048, 1048576, "any"]


def test_disks_are_encrypted_when_flavor_or_image_say_so():
    able, luks = "COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS"
    for specs, properties, traits in (
            ({}, {}, set()), ({"hw:ephemeral_encryption": "false", "hw:ephemeral_encryption_format": "plain"}, {}, set()),
            ({"hw:ephemeral_encryption": "true"}, {}, {able}), ({}, {"hw_ephemeral_encryption": True}, {able}),
            ({"hw:ephemeral_encryption": "yes"}, {"hw_ephemeral_encryption": True, "hw_ephemeral_encryption_format": "luks"},
             {able, luks})):
        both = asked(specs, properties)
        assert hardware.traits(both.flavor, both.image) == traits
        assert hardware.encrypts_disks(both.flavor, both.image) == bool(traits)


def test_a_tpm_has_a_model():
    assert devices.tpm(asked({"hw:tpm_version": "2.0"})) == ("2.0", "tpm-tis")
    assert devices.tpm(asked({}, {"hw_tpm_version": "2.0", "hw_tpm_model": "tpm-crb"})) == ("2.0", "tpm-crb")
    assert devices.tpm(asked()) is None


def test_ranges_are_read_and_written():
    assert ranges("0-3,^2,8") == [0, 1, 3, 8]
    assert as_ranges([8, 0, 1, 3]) == "0-1,3,8"
    for text in ("3-1", "a", "", "0-99999999"):
        with pytest.raises(ValueError):
            ranges(text)


PLAIN = HostCell(0, (0, 1, 2, 3), 2048)
THREADS = HostCell(1, (4, 5, 6, 7), 2048, siblings=((4, 6), (5, 7)), pages={2048: 256})


def _placed(specs, cells, **values):
    found = placement.place(numa.demand(asked(specs, **values)), cells)
    return None if found is None else [(cell.host_cell, dict(cell.pins), cell.page_kib) for cell in found]


def test_dedicated_cpus_are_nobody_elses():
    specs = {"hw:cpu_policy": "dedicated"}
    first = placement.place(numa.demand(asked(specs, vcpus=3)), [PLAIN])
    assert [dict(cell.pins) for cell in first] == [{0: "0", 1: "1", 2: "2"}]
    (rest,) = placement.in_use([PLAIN], first)
    assert _placed(specs, [rest], vcpus=1) == [(0, {0: "3"}, 0)]
    assert _placed(specs, [rest], vcpus=2) is None
    assert rest.memory_free_mb == 1024


def test_memory_of_a_node_is_not_overcommitted():
    shared = {"hw:numa_nodes": "1"}
    first = placement.place(numa.demand(asked(shared, memory_mb=1500)), [PLAIN])
    assert [dict(cell.pins) for cell in first] == [dict.fromkeys(range(4), "0-3")]
    (rest,) = placement.in_use([PLAIN], first)
    assert _placed(shared, [rest], memory_mb=600) is None
    assert _placed(shared, [rest, THREADS], memory_mb=600)[0][0] == 1
    assert _placed(shared, [PLAIN], vcpus=5) is None


def test_each_node_of_a_guest_has_one_of_the_host():
    specs = {"hw:numa_nodes": "2"}
    assert [cell for cell, *_ in _placed(specs, [PLAIN, THREADS])] == [0, 1]
    assert _placed(specs, [PLAIN]) is None
    uneven = {"hw:numa_nodes": "2",
              "hw:numa_cpus.0": "0", "hw:numa_mem.0": "100", "hw:numa_cpus.1": "1-3", "hw:numa_mem.1": "924"}
    small = HostCell(5, (8,), 512)
    assert [cell for cell, *_ in _placed(uneven, [PLAIN, small])] == [5, 0]     # the first one fits on both, the other does not
    ring = {"hw:numa_nodes": "3", **{f"hw:numa_cpus.{n}": cpus for n, cpus in enumerate(("0", "1", "2-3"))},
            **{f"hw:numa_mem.{n}": size for n, size in enumerate(("100", "600", "324"))}}
    cells = [PLAIN, HostCell(5, (8,), 1024), HostCell(6, (9,), 128)]
    assert [cell for cell, *_ in _placed(ring, cells)] == [6, 5, 0]             # two of them have to make room


@pytest.mark.parametrize("nodes", [8, 9])
def test_a_guest_that_does_not_fit_costs_few_looks(nodes):
    """On a host with 8 nodes, of which all but the guest's last one fit everywhere: there are 40320 orders."""
    looks = []

    class Counted(HostCell):
        @property
        def memory_free_mb(self):
            looks.append(self.number)
            return super().memory_free_mb

    specs = {"hw:numa_nodes": str(nodes), **{f"hw:numa_cpus.{n}": str(n) for n in range(nodes)},
             **{f"hw:numa_mem.{n}": "100" if n < 7 else "2100" for n in range(nodes)}}
    demand = numa.demand(asked(specs, vcpus=nodes, memory_mb=700 + 2100 * (nodes - 7)))
    assert placement.place(demand, [Counted(n, (n,), 2048) for n in range(8)]) is None
    assert len(looks) <= 8 * nodes


def test_huge_pages_are_counted():
    specs = {"hw:mem_page_size": "large"}
    assert _placed(specs, [PLAIN]) is None
    bound = placement.place(numa.demand(asked(specs, memory_mb=400)), [PLAIN, THREADS])
    assert [(cell.host_cell, cell.page_kib) for cell in bound] == [(1, 2048)]
    (rest,) = placement.in_use([THREADS], bound)
    assert (rest.pages_used, rest.memory_free_mb) == ({2048: 200}, 1536)
    assert _placed(specs, [rest], memory_mb=400) is None
    assert _placed({"hw:mem_page_size": "any"}, [rest], memory_mb=400)[0][2] == 0
    assert _placed({"hw:mem_page_size": "2MB"}, [THREADS], memory_mb=401) is None       # not a whole number of pages


@pytest.mark.parametrize(("policy", "cells", "expected"), [
    ("prefer", [THREADS], ["4", "6"]), ("require", [THREADS], ["4", "6"]), ("require", [PLAIN], None),
    ("isolate", [THREADS], None), ("isolate", [PLAIN], ["0", "1"])])
def test_threads_of_a_core_stay_together_or_apart(policy, cells, expected):
    found = _placed({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": policy}, cells, vcpus=2)
    assert (found and list(found[0][1].values())) == expected


def test_nodes_of_hosts_travel_as_json():
    specs = {"hw:cpu_policy": "dedicated", "hw:mem_page_size": "2MB"}
    bound = placement.place(numa.demand(asked(specs, memory_mb=4)), [THREADS])
    (used,) = placement.in_use([THREADS], bound)
    assert HostCell.from_primitive(json.loads(json.dumps(used.to_primitive()))) == used
    again = placement.BoundCell.from_primitive(json.loads(json.dumps(bound[0].to_primitive())))
    assert again == bound[0]
