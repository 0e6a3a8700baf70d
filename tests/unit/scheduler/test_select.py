"""The pure function: the same answer as a slow and simple reference, and never more than a host has."""
import json
import pathlib
import random
import re

import numpy as np
import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.objects.image import ImageMeta
from nova_lite.scheduler import plugins
from nova_lite.scheduler.request import Request
from nova_lite.scheduler.select import select
from nova_lite.scheduler.snapshot import Aggregate, Snapshot
from tests.unit.scheduler.hosts import spec

CONF = nova_conf.load([], config_files=[])
FILTERS, WEIGHERS = plugins.load_filters(CONF), plugins.load_weighers(CONF)
ALL_FILTERS = plugins.load_filters(nova_conf.load([], config_files=[], scheduler__enabled_filters=[
    *CONF.scheduler.enabled_filters, "AggregateInstanceExtraSpecsFilter"]))
KVM, ARM = ("x86_64", "kvm", "hvm"), ("aarch64", "kvm", "hvm")


def snapshot(hosts, aggregates=()):
    """A snapshot of dictionaries; see ``host``."""
    def column(name, kind=np.int64):
        return np.array([h[name] for h in hosts], dtype=kind)

    kinds = sorted({h["support"] for h in hosts})
    zones = sorted({h["zone"] for h in hosts})
    rows_of: dict = {}
    for row, h in enumerate(hosts):
        rows_of.setdefault(h["host"], []).append(row)
    return Snapshot(
        ids=np.arange(100, 100 + len(hosts)), hosts=tuple(h["host"] for h in hosts),
        nodes=tuple(h["host"] + "-node" for h in hosts),
        **{n: column(n) for n in ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used",
                                  "instances_used", "io_ops", "failed_builds", "hypervisor_version")},
        **{f"{n}_capacity": column(n, float) * column("ratio", float) for n in ("vcpus", "memory_mb", "local_gb")},
        hypervisor_type=np.array(["QEMU"] * len(hosts), dtype=object),
        support=np.array([kinds.index(h["support"]) for h in hosts], dtype=int), supports=tuple((k,) for k in kinds),
        trait=np.arange(len(hosts)), traits=tuple(frozenset(h["traits"]) for h in hosts),
        numa=np.arange(len(hosts)), numas=tuple(json.dumps(h["numa"]) for h in hosts),
        up=column("up", bool), enabled=column("enabled", bool),
        zone=np.array([zones.index(h["zone"]) for h in hosts], dtype=int), zones=tuple(zones),
        rows_of={h: np.array(r) for h, r in rows_of.items()},
        aggregates=tuple(Aggregate(n, f"a{n}", {k: frozenset(v) for k, v in values.items()},
                                   np.array([h["host"] in members for h in hosts], dtype=bool))
                         for n, (values, members) in enumerate(aggregates)))


def host(name, **values):
    return {"host": name, "vcpus": 16, "memory_mb": 16384, "local_gb": 200, "vcpus_used": 0, "memory_mb_used": 0,
            "local_gb_used": 0, "instances_used": 0, "io_ops": 0, "failed_builds": 0, "ratio": 1.0, "up": True,
            "enabled": True, "zone": "nova", "support": KVM, "hypervisor_version": 7002000,
            "traits": (), "numa": None, **values}


def random_hosts(chance, count):
    made = []
    for n in range(count):
        vcpus, memory, disk = chance.choice([2, 8, 16]), chance.choice([2048, 8192]), chance.choice([40, 100])
        made.append(host(f"h{n}", vcpus=vcpus, memory_mb=memory, local_gb=disk, ratio=chance.choice([1.0, 1.5, 4.0]),
                         vcpus_used=chance.randint(0, vcpus), memory_mb_used=chance.randint(0, memory),
                         local_gb_used=chance.randint(0, disk), io_ops=chance.randint(0, 3),
                         failed_builds=chance.choice([0, 0, 0, 1, 2]), up=chance.random() > 0.1,
                         enabled=chance.random() > 0.1, zone=chance.choice(["nova", "az1"]),
                         support=chance.choice([KVM, KVM, ARM])))
    return made


def reference(hosts, request, count):
    """The scheduler as one would write it down first: one host at a time, no arrays. Names of the chosen hosts."""
    hosts = [dict(h, members=request.group_hosts.get(h["host"], 0)) for h in hosts]
    wanted, policy, chosen = request.spec, request.group_policy, []
    image = wanted.image.properties if wanted.image else {}

    def passes(h):
        grouped = any(o["members"] for o in hosts)
        return (h["up"] and h["enabled"] and h["host"] not in wanted.ignore_hosts
                and (not wanted.availability_zone or h["zone"] == wanted.availability_zone)
                and all(h[n] >= need and h[f"{n}_used"] + need <= h[n] * h["ratio"] for n, need in (
                    ("vcpus", request.vcpus), ("memory_mb", request.memory_mb), ("local_gb", request.disk_gb)) if need)
                and image.get("hw_architecture", h["support"][0]) == h["support"][0]
                and not (policy == "anti-affinity" and h["members"] >= request.max_server_per_host)
                and not (policy == "affinity" and grouped and not h["members"])
                and (request.same_hosts is None or h["host"] in request.same_hosts)
                and (request.different_hosts is None or h["host"] not in request.different_hosts))

    def score(h, among):
        def scaled(weight, floor=None):
            numbers = [weight(o) for o in among] + ([floor] if floor is not None else [])
            low, high = min(numbers), max(weight(o) for o in among)
            return (weight(h) - low) / (high - low) if high > low else 0.0

        total = sum(scaled(lambda o, n=n: o[n] * o["ratio"] - o[f"{n}_used"], 0)
                    for n in ("memory_mb", "vcpus", "local_gb"))
        total += -scaled(lambda o: o["io_ops"], 0) - 1e6 * scaled(lambda o: o["failed_builds"])
        total += scaled(lambda o: o["members"]) if policy == "soft-affinity" else 0
        return total + (scaled(lambda o: -o["members"]) if policy == "soft-anti-affinity" else 0)

    for _ in range(count):
        among = [h for h in hosts if passes(h)]
        if not among:
            break
        best = max(among, key=lambda h: round(score(h, among), 6))      # the first of equals
        chosen.append((best["host"], [round(score(h, among), 6) for h in among], [h["host"] for h in among]))
        best["vcpus_used"] += request.vcpus
        best["memory_mb_used"] += request.memory_mb
        best["local_gb_used"] += request.disk_gb
        best["io_ops"] += 1
        best["members"] += 1
    return chosen


def random_request(chance, hosts):
    names = [h["host"] for h in hosts]
    group = chance.choice([None, "affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"])
    some = frozenset(chance.sample(names, min(3, len(names))))
    return Request(
        spec=spec(vcpus=chance.randint(1, 4), memory_mb=chance.choice([128, 512, 1024]), root_gb=chance.choice([0, 1, 10]),
                  availability_zone=chance.choice([None, None, "az1", "nowhere"]),
                  ignore_hosts=chance.choice([[], names[:2]]),
                  image=chance.choice([None, ImageMeta("i", properties={"hw_architecture": "aarch64"})]),
                  group=group and {"uuid": "g", "policy": group, "rules": {"max_server_per_host": chance.choice([1, 2])}}),
        group_hosts=dict.fromkeys(some, 1) if group and chance.random() < 0.4 else {},
        same_hosts=chance.choice([None, None, None, some]), different_hosts=chance.choice([None, some]))


@pytest.mark.parametrize("seed", range(150))
def test_chooses_what_the_reference_chooses_and_never_beyond_capacity(seed):
    chance = random.Random(seed)
    hosts = random_hosts(chance, chance.choice([1, 5, 30, 80]))
    request, count = random_request(chance, hosts), chance.choice([1, 3, 12])
    plan = select(snapshot(hosts), request, count, FILTERS, WEIGHERS)
    expected = reference(hosts, request, count)
    assert len(plan.choices) == len(expected)
    for choice, (name, scores, names) in zip(plan.choices, expected, strict=True):
        score = dict(zip(names, scores, strict=True))
        got = [s.host for s in choice]
        # adding up the same numbers in another order may swap equals
        assert score[got[0]] == pytest.approx(score[name], abs=2e-6)
        if got[0] != name:
            break
        assert len(got) == len(set(got)) == min(3, len(names))
        assert [score[h] for h in got] == pytest.approx(sorted(scores, reverse=True)[:3], abs=2e-6)
    for h in hosts:
        taken = sum(choice[0].host == h["host"] for choice in plan.choices)
        if taken:
            assert h["vcpus_used"] + taken * request.vcpus <= h["vcpus"] * h["ratio"]
            assert h["memory_mb_used"] + taken * request.memory_mb <= h["memory_mb"] * h["ratio"]
            assert not request.disk_gb or h["local_gb_used"] + taken * request.disk_gb <= h["local_gb"] * h["ratio"]


def chosen(hosts, count=1, aggregates=(), filters=FILTERS, **fields):
    facts = {n: fields.pop(n) for n in ("group_hosts", "same_hosts", "different_hosts", "barred_nodes") if n in fields}
    plan = select(snapshot(hosts, aggregates), Request(spec(**fields), **facts), count, filters, WEIGHERS)
    return [[s.host for s in choice] for choice in plan.choices], plan.reason()


def test_the_snapshot_stays_as_it_was():
    given = snapshot([host("a")])
    select(given, Request(spec()), 5, FILTERS, WEIGHERS)
    assert given.vcpus_used.tolist() == given.group_members.tolist() + [0] == [0]


def test_the_reason_names_the_filters_that_took_hosts_away():
    hosts = [host(f"h{n}", memory_mb_used=16000 if n < 9 else 0) for n in range(12)]
    group = {"uuid": "g", "policy": "anti-affinity", "rules": {}}
    found, reason = chosen(hosts, group=group, group_hosts={"h9": 1, "h10": 1, "h11": 1})
    assert found == []
    assert reason == "12 hosts, RamFilter left 3, ServerGroupAntiAffinityFilter left 0"


def test_a_batch_that_runs_out_of_hosts_says_at_which_server():
    found, reason = chosen([host("a", vcpus=2), host("b", up=False)], count=3)
    assert found == [["a"], ["a"]]
    assert reason == "2 hosts, ComputeFilter left 1, CoreFilter left 0 (for server 3 of this request)"


def test_no_hosts_at_all():
    assert chosen([]) == ([], "0 hosts")


def test_a_guest_is_never_larger_than_its_host():
    assert chosen([host("a", vcpus=2, ratio=8.0)], vcpus=3)[1] == "1 host, CoreFilter left 0"


def test_a_forced_host_skips_the_filters_but_must_exist_and_live():
    hosts = [host("a"), host("b", enabled=False, zone="az1", memory_mb=16), host("c", up=False)]
    assert chosen(hosts, requested_destination={"host": "b", "force": True})[0] == [["b"]]
    assert chosen(hosts, requested_destination={"host": "b"}) == ([], "3 hosts, ComputeFilter left 1, ForcedHostFilter left 0")
    assert chosen(hosts, requested_destination={"host": "c", "force": True})[1] == (
        "3 hosts, ForcedHostFilter left 1, host up left 0")
    assert chosen(hosts, requested_destination={"host": "x", "force": True})[1] == "3 hosts, ForcedHostFilter left 0"
    assert chosen(hosts, requested_destination={"node": "a-node"})[0] == [["a"]]
    assert chosen(hosts, requested_destination={"host": "b", "force": True}, barred_nodes=frozenset({101}))[1] == (
        "3 hosts, claim left 2, ForcedHostFilter left 0")


@pytest.mark.parametrize(("extra_specs", "expected"), [
    ({"aggregate_instance_extra_specs:disk": "ssd"}, {"a"}),
    ({"aggregate_instance_extra_specs:disk": "<or> ssd <or> hdd"}, {"a", "b"}),
    ({"aggregate_instance_extra_specs:disk": "s!= ssd"}, {"b"}),
    ({"aggregate_instance_extra_specs:ram": ">= 100"}, {"b"}),
    ({"aggregate_instance_extra_specs:ram": "= 8"}, {"a", "b"}),
    ({"aggregate_instance_extra_specs:ram": "== 8"}, {"a"}),
    ({"aggregate_instance_extra_specs:cpu": "<in> sse"}, {"a"}),
    ({"aggregate_instance_extra_specs:cpu": "<all-in> sse4 avx"}, {"a"}),
    ({"aggregate_instance_extra_specs:cpu": "<all-in> sse4 vmx"}, set()),
    ({"aggregate_instance_extra_specs:disk": "ssd", "aggregate_instance_extra_specs:ram": "> 1"}, set()),
    ({"aggregate_instance_extra_specs:nobody_has": "x"}, set()),
    ({"disk": "ssd"}, {"a"}),
    ({"nobody_has": "x", "hw:boot_menu": "true"}, {"a", "b", "c"})])
def test_aggregate_extra_specs(extra_specs, expected):
    aggregates = [({"disk": ["ssd"], "ram": ["8"], "cpu": ["sse4 avx"]}, {"a"}), ({"disk": ["hdd"]}, {"b"}),
                  ({"ram": ["200"]}, {"b"})]
    hosts = [host("a"), host("b"), host("c")]
    found, _ = chosen(hosts, aggregates=aggregates, filters=ALL_FILTERS, extra_specs=extra_specs)
    assert set(found[0] if found else []) == expected


@pytest.mark.parametrize(("properties", "expected"), [
    ({"hw_architecture": "x86_64"}, ["a"]), ({"hw_architecture": "amd64"}, ["a"]), ({"architecture": "arm64"}, ["b"]),
    ({"img_hv_type": "kvm"}, ["a", "b"]), ({"img_hv_type": "xen"}, []), ({"hw_vm_mode": "hvm"}, ["a", "b"]),
    ({"hw_vm_mode": "pv"}, []), ({"img_hv_requested_version": ">=8"}, ["b"]),
    ({"img_hv_requested_version": ">=7.2,<8.0"}, ["a"]), ({"img_hv_requested_version": "nonsense"}, []),
    ({"img_hv_requested_version": ">=" + "9" * 5000}, []), ({"hypervisor_version_requires": ">=7." + "9" * 5000}, []),
    ({"hw_disk_bus": "virtio"}, ["a", "b"])])
def test_image_properties(properties, expected):
    hosts = [host("a"), host("b", support=ARM, hypervisor_version=9001002)]
    found, _ = chosen(hosts, image=ImageMeta("i", properties=properties))
    assert (found[0] if found else []) == expected


@pytest.mark.parametrize(("extra_specs", "properties", "expected"), [
    ({}, {}, ["plain", "able"]), ({"hw:tpm_version": "2.0"}, {}, ["able"]), ({"hw:tpm_version": "1.2"}, {}, []),
    ({}, {"hw_firmware_type": "uefi"}, ["able"]),
    ({}, {"hw_firmware_type": "bios", "os_secure_boot": "optional"}, ["plain", "able"]),
    ({"os:secure_boot": "required"}, {"hw_firmware_type": "uefi"}, [])])
def test_hosts_without_the_firmware_or_tpm_of_a_guest_are_left_out(extra_specs, properties, expected):
    hosts = [host("plain"), host("able", traits=("COMPUTE_SECURITY_TPM_2_0", "CUSTOM_FIRMWARE_UEFI"))]
    found, _ = chosen(hosts, extra_specs=extra_specs, image=ImageMeta("i", properties=properties))
    assert (found[0] if found else []) == expected


CELLS = [{"id": n, "cpus": f"{4 * n}-{4 * n + 3}", "memory_mb": 4096, "pages": {"2048": 1024}, "pinned": "0-1,4"}
         for n in (0, 1)]


@pytest.mark.parametrize(("extra_specs", "fits"), [
    ({"hw:cpu_policy": "dedicated"}, True), ({"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"}, True),
    ({"hw:numa_nodes": "4"}, False), ({"hw:mem_page_size": "2MB"}, True), ({"hw:mem_page_size": "1GB"}, False),
    ({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}, False)])
def test_a_host_whose_nodes_do_not_have_the_room_is_left_out(extra_specs, fits):
    hosts = [host("unknown"), host("known", numa=CELLS)]
    found, _ = chosen(hosts, vcpus=4 if "hw:numa_nodes" in extra_specs else 2, extra_specs=extra_specs)
    assert (found[0] if found else []) == (["known"] if fits else [])


def test_isolated_hosts():
    conf = nova_conf.load([], config_files=[], scheduler__isolated_hosts=["b"], scheduler__isolated_images=["special"])
    filters = plugins.load_filters(conf)
    for image, expected in (("special", "b"), ("other", "a")):
        plan = select(snapshot([host("a"), host("b")]), Request(spec(image=ImageMeta(image))), 1, filters, WEIGHERS)
        assert [s.host for s in plan.choices[0]] == [expected]


def test_members_of_a_batch_keep_to_the_groups_policy():
    hosts = [host("a"), host("b"), host("c")]
    def firsts(policy, count, **rules):
        group = {"uuid": "g", "policy": policy, "rules": rules}
        return [c[0] for c in chosen(hosts, count=count, group=group)[0]]

    assert firsts("affinity", 3) == ["a"] * 3
    assert sorted(firsts("anti-affinity", 5)) == ["a", "b", "c"]
    assert sorted(firsts("anti-affinity", 9, max_server_per_host=2)) == ["a", "a", "b", "b", "c", "c"]
    assert len(set(firsts("soft-anti-affinity", 3))) == 3


def test_one_of_the_best_is_chosen_by_chance():
    hosts = [host(f"h{n}") for n in range(6)]
    seen = set()
    for seed in range(60):
        plan = select(snapshot(hosts), Request(spec()), 1, FILTERS, WEIGHERS, subset_size=4, chance=random.Random(seed))
        seen.add(plan.choices[0][0].host)
        assert len({s.host for s in plan.choices[0]}) == 3
    assert seen == {"h0", "h1", "h2", "h3"}


def test_equal_hosts_are_taken_from_a_row_on():
    hosts = [*(host(f"h{n}") for n in range(40)), host("best", memory_mb=65536, vcpus=64)]

    def taken(first, count=3):
        plan = select(snapshot(hosts), Request(spec()), count, FILTERS, WEIGHERS, first=first)
        return [choice[0].host for choice in plan.choices]
    assert taken(0)[0] == taken(25)[0] == "best"
    hosts.pop()
    assert taken(0) == ["h0", "h1", "h2"]
    assert taken(38) == ["h38", "h39", "h0"]


@pytest.mark.parametrize("options", [
    {"scheduler__enabled_filters": ["NoSuchFilter"]}, {"scheduler__weight_multipliers": {"NoSuchWeigher": "1"}},
    {"scheduler__weight_multipliers": {"RAMWeigher": "much"}}])
def test_a_wrong_name_or_number_is_a_configuration_error(options):
    conf = nova_conf.load([], config_files=[], **options)
    with pytest.raises(exception.ConfigError, match="NoSuch|much"):
        plugins.load_filters(conf), plugins.load_weighers(conf)


def test_negative_multipliers_pack():
    conf = nova_conf.load([], config_files=[], scheduler__weight_multipliers={"RAMWeigher": "-1"})
    plan = select(snapshot([host("a"), host("b", memory_mb_used=4096)]), Request(spec()), 3, FILTERS,
                  plugins.load_weighers(conf))
    assert [c[0].host for c in plan.choices] == ["b", "b", "b"]


def test_the_filter_and_the_weigher_of_the_page():
    """docs/extending.md."""
    page = (pathlib.Path(__file__).parents[3] / "docs/extending.md").read_text()
    [code] = [block for block in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "class RackFilter" in block]
    module: dict = {}
    exec(code, module)
    there = snapshot([host("a", instances_used=1), host("b", instances_used=3), host("c")],
                     [({"rack": ["7"]}, "ab"), ({"rack": ["8"]}, "c")])

    def best(**hints):
        plan = select(there, Request(spec(scheduler_hints=hints)), 1, [("RackFilter", module["RackFilter"](CONF))],
                      [(module["ServersWeigher"](CONF), -1.0)])
        return [s.host for choice in plan.choices for s in choice]
    assert best() == ["c", "a", "b"]
    assert best(rack="7") == ["a", "b"]
    assert best(rack=["7", "8"]) == ["c", "a", "b"]
    assert best(rack="9") == []
