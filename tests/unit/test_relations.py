"""Relations within a session: which values contradict each other, and which of them is odd."""

import json
import lzma
import random
import re
from dataclasses import replace

import pytest

from bench import relations as bench
from nearmetal.cluster import node
from nearmetal.expectations import entries, hardware, judge, odd
from nearmetal.expectations.judge import Measured, Place
from tests.support.paths import RECORDED

SHIPPED = entries.load()
LINK = {"link_class": "native", "link_type": "software", "link_speed_gbps": "memory"}
NATIVE = ("mpj", "mpj_native")
FEATURES = {"gnu": ("serial",), "mpj": ("mpj",), "mpj-native": NATIVE, "mpj-native-mpich": NATIVE}
NAMES = ("startup_latency", "latency_1KiB", "bandwidth_64KiB", "peak_bandwidth")
CURVE, WITHIN = (5.0, 5.6, 16.0, 26.0), (0.13, 0.3, 90.0, 100.0)


HPCC = {"hpl": 60.0, "hpl_of_dgemm": 75.0, "star_dgemm": 40.0, "mpi_fft": 5.0, "ptrans": 20.0}
HPCC |= {"ring_bandwidth": 10.0, "mpi_random_access": 0.01, "star_random_access": 0.04}


def a_case(check, environ, values, partition="native", parameters=None, **facts):
    features = FEATURES.get(environ.removesuffix("-sif"), ("mpi",))
    place = Place({**LINK, "cores_per_node": 2}, environ_features=frozenset(features))
    facts = {"cpu_model": "AMD EPYC", **facts}
    return Measured(check, place, parameters or {}, partition, environ, values, facts=facts)


def pingpong(environ, partition="native", placement="internode", **values):
    curve = {"intranode": WITHIN, "internode": CURVE}[placement]
    values = {**dict(zip(NAMES, curve)), **values}
    return a_case("pingpong", environ, values, partition, {"placement": placement})


def deviations(*cases):
    """Partition, environment, variable and sentence of what deviates."""
    found = judge.of_session({case.partition: SHIPPED for case in cases}, list(cases))
    placed = []
    for each in odd.with_odd_values(found):
        placed.append((each.case.partition, each.case.environ, each.variable, each.said))
    return placed


def healthy():
    """A quiet session of the lab's native partition, with all of its environments."""
    text = (RECORDED / "relations_healthy.json").read_text()
    return [
        a_case(each["check"], each["environ"], each["values"], parameters=each["parameters"])
        for each in json.loads(text)
    ]


def test_a_healthy_session_holds_all_relations_and_nearly_all_variables_are_in_one():
    cases = healthy()
    assert not deviations(*cases)
    reached = set()
    for judgement in judge.judged({"native": SHIPPED}, cases):
        if not judgement.of_repeats:
            reached |= {(id(case), name) for case, name in judgement.values()}
    assert len(reached) > 0.9 * sum(len(case.values) for case in cases)


def test_java_over_sockets_is_not_compared_with_java_over_mpi():
    """A session of the lab: within a node, MPJ Express takes 17 times as long."""
    express = pingpong("mpj", placement="intranode", startup_latency=6.3, latency_1KiB=5.2)
    native = pingpong("mpj-native", placement="intranode", startup_latency=0.38, latency_1KiB=0.88)
    assert not deviations(express, native)
    slow = replace(express, environ="mpj-native-mpich", place=native.place)
    names = {variable for _, _, variable, _ in deviations(slow, native)}
    assert names == {"startup_latency", "latency_1KiB"}


def test_medians_that_vary_by_five_percent_hold_all_relations():
    rng = random.Random(1)
    for _ in range(20):
        noisy = []
        for case in healthy():
            values = {
                name: value * rng.lognormvariate(0, 0.05) for name, value in case.values.items()
            }
            # Shares of the ideal do not vary beyond it.
            noisy.append(replace(case, values={**values, "bound": 100.0}))
        assert not deviations(*noisy)


@pytest.mark.parametrize(
    "check, environ, variable, factor, names",
    [
        ("pingpong", "openmpi", "startup_latency", 3, ["byte_beside_kib"]),
        ("pingpong", "openmpi", "startup_latency", 20, ["mpi_latency_beside_tcp"]),
        ("pingpong", "mpich", "latency_1KiB", 6, ["kib_by_hockney", "beside_libraries"]),
        ("pingpong", "mpich", "bandwidth_64KiB", 0.05, ["rate_by_hockney", "beside_libraries"]),
        ("pingpong", "mpich", "bandwidth_64KiB", 8, ["rate_beside_kib"]),
        ("pingpong", "mpich", "peak_bandwidth", 0.1, ["mpi_rate_beside_tcp"]),
        ("tcp", "gnu", "bandwidth_64KiB", 0.1, ["streamed_64kib"]),
        ("npb", "mpich", "mops_S_1", 0.4, ["mops_beside_libraries", "speed_up"]),
        ("stream", "gnu", "add_2", 0.6, ["add_beside_triad"]),
        ("stream", "gnu", "copy_1", 2, ["copy_beside_triad"]),
        ("stream", "gnu", "triad_2", 2.2, ["rate_by_threads", "copy_beside_triad"]),
    ],
)
def test_a_value_of_a_healthy_session_that_moves_is_found(check, environ, variable, factor, names):
    cases = healthy()
    for number, case in enumerate(cases):
        if (case.check, case.environ) == (check, environ):
            moved = {**case.values, variable: factor * case.values[variable]}
            cases[number] = replace(case, values=moved)
    sentences = "\n".join(each[3] for each in deviations(*cases))
    assert all(f"({name})" in sentences for name in names), sentences


def test_open_mpi_of_an_emulated_node_that_is_ten_times_slower_within_it_is_the_odd_one():
    slow = pingpong("openmpi", "emulated", "intranode", startup_latency=1.4, latency_1KiB=1.6)
    others = [
        pingpong("mpich", "emulated", "intranode"),
        pingpong("openmpi", "native", "intranode"),
        pingpong("mpich", "native", "intranode"),
    ]
    found = deviations(slow, *others)
    assert {each[:2] for each in found} == {("emulated", "openmpi")}
    assert any(
        "the odd one is startup_latency of pingpong with openmpi" in each[3] for each in found
    )


def test_tcp_at_half_of_the_rate_of_two_mpi_libraries_is_the_odd_one():
    tcp = a_case("tcp", "gnu", dict(zip(NAMES, (6.0, 6.2, 12.0, 13.0))))
    (only,) = deviations(tcp, pingpong("openmpi"), pingpong("mpich"))
    assert only[1:3] == ("gnu", "peak_bandwidth")
    assert "26 Gb/s by MPI, and 13 Gb/s by TCP" in only[3] and "by 1 more" in only[3]


def test_a_byte_that_takes_longer_than_a_kib_is_one_of_two_until_another_library_tells():
    mpich = pingpong("mpich", startup_latency=88.0, latency_1KiB=48.0)
    (only,) = deviations(mpich)
    assert only[2] == "startup_latency" and "one of the values is odd" in only[3]
    found = deviations(mpich, pingpong("openmpi", startup_latency=20.0, latency_1KiB=21.0))
    assert {each[:3] for each in found} == {("native", "mpich", "startup_latency")}
    assert all("the odd one is startup_latency of pingpong with mpich" in each[3] for each in found)


def test_of_three_libraries_the_one_far_from_the_median_is_odd():
    cases = [pingpong(name) for name in ("openmpi", "mpich", "openmpi-sif")]
    cases.append(pingpong("mpich-sif", peak_bandwidth=3.0, bandwidth_64KiB=2.9))
    found = deviations(*cases)
    assert {each[1] for each in found} == {"mpich-sif"}
    assert "far from the median of 4" in found[0][3]


def test_libraries_in_java_are_compared_with_each_other_alone():
    assert not deviations(pingpong("openmpi"), pingpong("mpj", startup_latency=25, latency_1KiB=26))


def test_partitions_on_other_processors_are_not_compared():
    slow = pingpong("openmpi", "old", "intranode", startup_latency=1.0, latency_1KiB=1.1)
    slow = replace(slow, facts={"cpu_model": "Intel Xeon"})
    assert not deviations(slow, pingpong("openmpi", "native", "intranode"))


def test_collectives_are_held_against_messages():
    values = {"barrier_3": 12.0, "allreduce_64KiB_4": 900.0, "alltoall_64KiB_4": 800.0}
    cases = [pingpong("openmpi"), pingpong("openmpi", placement="intranode")]
    assert not deviations(*cases, a_case("collectives", "openmpi", values))
    slow = {"barrier_3": 300.0, "allreduce_64KiB_4": 5000.0, "alltoall_64KiB_4": 9000.0}
    found = deviations(*cases, a_case("collectives", "openmpi", slow))
    assert [each[2] for each in found] == ["barrier_3", "allreduce_64KiB_4", "alltoall_64KiB_4"]
    assert "37.9 times the 1.58 steps" in found[0][3]


@pytest.mark.parametrize(
    "check, values, variable, odd_value",
    [
        ("hpcc", HPCC, "mpi_fft", 90.0),
        ("hpcc", HPCC, "ptrans", 50.0),
        ("hpcc", HPCC, "mpi_random_access", 0.2),
        ("osnoise", {"share_lost": 5.0, "worst_core_lost": 6.0}, "worst_core_lost", 4.0),
        ("osnoise", {"share_lost": 5.0, "detour_rate": 10.0}, "longest_detour", 9.0),
        ("launch", {"launch_2": 0.3, "mpi_init_2": 0.2}, "mpi_init_2", 0.4),
        ("affinity", {"bound": 100.0}, "bound", 50.0),
    ],
)
def test_a_part_is_held_against_the_whole(check, values, variable, odd_value):
    assert not deviations(a_case(check, "openmpi", values))
    (only,) = deviations(a_case(check, "openmpi", {**values, variable: odd_value}))
    assert only[2] == variable and ("one of the values is odd" in only[3]) == (check != "affinity")


def test_the_bench_holds_curves_of_a_table_against_the_relations(tmp_path, capsys):
    head = (
        "machine,mpi,os,source_repo,source_path,benchmark,scope,variable,unit,kind,note,processes"
    )
    rows = [f"{head},size_bytes,value"]
    for path, times in (("a", (5, 6, 20, 90)), ("b", (9, 5, 20, 90))):
        for size, time in zip((1, 1024, 65536, 1 << 20), times):
            row = (
                f"here,mpi,,repo,{path},osu_latency,inter-node,latency,us,measured,,2,{size},{time}"
            )
            rows.append(row)
    rows.append("here,mpi,,repo,c,osu_allreduce,collective,latency,us,measured,,64,8,5000")
    table = tmp_path / "table.csv.xz"
    table.write_bytes(lzma.compress("\n".join(rows).encode()))
    assert bench.main(["--table", str(table)]) == 0
    out = capsys.readouterr().out
    assert "9 us for 1 B, and 5 us for 1 KiB" in out and "allreduce_8B_64: 5000 us" in out
    assert re.search(r"byte_beside_kib .* 3 +6 +1\n", out), out


def test_the_bench_says_how_many_variables_are_judged(capsys):
    assert bench.main(["--session", str(RECORDED / "session_lab.json")]) == 0
    assert "with relations: 24 of 24 variables judged (100 %)" in capsys.readouterr().out


# Link types, NICs and processors that must not deviate falsely. Figures are of public machines.
def between(values, facts=None, **extras):
    extras = {"link_class": "native", "hypervisor": "none", "cores_per_node": 128, **extras}
    place = Place(extras, frozenset({"bare_metal"}), frozenset({"mpi"}))
    placed = {"placement": "internode"}
    return Measured("pingpong", place, placed, "here", "mpich", values, facts=facts or {})


def tcp_beside(case, **values):
    return replace(case, check="tcp", environ="gnu", parameters={}, values=values, facts=BY_KERNEL)


SLINGSHOT = {"startup_latency": 2.0, "peak_bandwidth": 180.0}
BYPASS = {"transport": "shared memory or kernel bypass", "nic.hsn0.mtu": "9000"}
BY_KERNEL = {"transport": "hsn0 (cxi_ss1)", "nic.hsn0.mtu": "9000"}


def test_slingshot_called_ethernet_does_not_deviate():
    case = between(SLINGSHOT, BYPASS, link_type="ethernet", link_speed_gbps=200)
    within = between({"peak_bandwidth": 90.0}, {"transport": "shared memory"}, **case.place.extras)
    within = replace(within, parameters={"placement": "intranode"})
    tcp = tcp_beside(case, startup_latency=25.0, peak_bandwidth=30.0)
    assert not deviations(case, within, tcp)
    by_kernel = replace(case, facts=BY_KERNEL)
    found = "\n".join(each[3] for each in deviations(by_kernel, within, tcp))
    assert "(mpi_beside_tcp)" in found and "(within_above_between)" in found


def test_bytes_that_the_kernel_carried_are_held_against_tcp_whatever_the_link():
    slow = {"startup_latency": 200.0, "peak_bandwidth": 5.0}
    case = between(slow, BY_KERNEL, link_type="ethernet", link_speed_gbps=200)
    tcp = tcp_beside(case, startup_latency=25.0, peak_bandwidth=30.0)
    found = "\n".join(each[3] for each in deviations(case, tcp))
    assert "(mpi_latency_beside_tcp)" in found and "(mpi_rate_beside_tcp)" in found


@pytest.mark.parametrize(
    "values, extras, name",
    [
        # ARCHER2, CSCS Alps, and a link of Omni-Path
        ({"startup_latency": 1.86, "peak_bandwidth": 91.0}, ("slingshot", 200, 2), ""),
        ({"startup_latency": 3.8, "peak_bandwidth": 192.0}, ("slingshot", 800, 4), ""),
        ({"startup_latency": 1.3, "peak_bandwidth": 90.0}, ("omnipath", 100, 1), ""),
        ({"startup_latency": 25.0}, ("slingshot", 200, 2), "latency_slingshot"),
        ({"startup_latency": 0.2}, ("omnipath", 100, 1), "latency_of_a_nic"),
        # HB368rs_v5 has two NICs of 400 Gb/s, and GB300 four
        ({"peak_bandwidth": 380.0}, ("infiniband", 800, 2), ""),
        ({"peak_bandwidth": 190.0}, ("infiniband", 800, 4), ""),
        ({"peak_bandwidth": 60.0}, ("infiniband", 800, 4), "share_mpi_infiniband"),
        # p4d.24xlarge has four EFA of 100 Gb/s, p5 32
        ({"startup_latency": 17.0, "peak_bandwidth": 90.0}, ("efa", 400, 4), ""),
        ({"startup_latency": 17.0, "peak_bandwidth": 90.0}, ("efa", 3200, 32), ""),
    ],
)
def test_a_pair_of_processes_may_have_one_of_several_nics(values, extras, name):
    link_type, speed, nics = extras
    case = between(values, link_type=link_type, link_speed_gbps=speed, nics=nics)
    found = "\n".join(each[3] for each in deviations(case))
    assert (f"({name})" in found) if name else not found


@pytest.mark.parametrize(
    "values, nics, name",
    [
        ({}, 2, ""),
        ({"bandwidth_1": 380.0, "busiest_nic": 100.0}, 1, ""),
        ({"bandwidth_8": 830.0}, 2, "pairs_within_the_link"),
        ({"bidirectional_1": 80.0}, 2, "both_directions_beside_one"),
        ({"bandwidth_8": 90.0}, 2, "pairs_beside_one"),
        ({"nic_bytes": 40.0}, 2, "nics_carried_all"),
        ({"busiest_nic": 99.0}, 2, "nics_share_the_bytes"),
        ({"bandwidth_1": 90.0}, 2, "one_pair_beside_pingpong"),
    ],
)
def test_pairs_of_ranks_use_all_nics(values, nics, name):
    healthy = {"bandwidth_1": 380.0, "bidirectional_1": 700.0, "message_rate_1": 4.0}
    healthy |= {"bandwidth_8": 780.0, "bidirectional_8": 1500.0, "message_rate_8": 30.0}
    healthy |= {"nic_bytes": 103.0, "busiest_nic": 55.0}
    extras = {"link_type": "infiniband", "link_speed_gbps": 800, "nics": nics}
    message = between({"startup_latency": 1.5, "peak_bandwidth": 370.0}, **extras)
    pairs = replace(message, check="multi_pair", parameters={}, values=healthy | values)
    found = "\n".join(each[3] for each in deviations(pairs, message))
    assert (f"({name})" in found) if name else not found


def test_a_rail_is_compared_with_its_rdma_rate():
    case = between({}, link_type="infiniband", link_speed_gbps=800, nics=2)
    rdma = replace(case, check="rdma", parameters={}, values={"peak_bandwidth": 390.0})
    assert not deviations(rdma)
    (slow,) = deviations(replace(rdma, values={"peak_bandwidth": 300.0}))
    assert "75 % of the link's 400 Gb/s" in slow[3]


@pytest.mark.parametrize(
    "facts, gflops",
    [
        (("sve512", "Fujitsu A64FX", "2200000"), 70.4),
        (("sve128", "Neoverse-V2", "3400000"), 54.4),
        (("sve256", "Neoverse-V1", "2600000"), 41.6),
        (("avx512", "Intel(R) Xeon(R) Silver 4114 CPU @ 2.20GHz", "3000000"), 48.0),
        (("avx512", "Intel(R) Xeon(R) Gold 5218 CPU @ 2.30GHz", "3900000"), 62.4),
        (("avx512", "Intel(R) Xeon(R) Gold 5222 CPU @ 3.80GHz", "3900000"), 124.8),
        (("avx512", "Intel(R) Xeon(R) Gold 6132 CPU @ 2.60GHz", "3700000"), 118.4),
        (("avx512", "AMD EPYC 9V33X 96-Core Processor", "3700000"), 59.2),
        (("avx512", "AMD EPYC 9B14", "3700000"), 59.2),
        (("avx512", "AMD EPYC 9R14", "3700000"), 59.2),
        (("avx512", "AMD EPYC 9755 128-Core Processor", "4100000"), 131.2),
        (("avx512", "AMD EPYC 9R45", "4100000"), 131.2),
        (("fma", "AMD EPYC 7551 32-Core Processor", "3000000"), 24.0),
        (("fma", "AMD EPYC 7742 64-Core Processor", "2250000"), 36.0),
        (("sve128", "Neoverse-N2", "3400000"), 27.2),
        (("asimd", "Neoverse-N1", "unknown", "Amazon EC2 c6gn.16xlarge"), 20.0),
        (("sve256", "0x41 part 0xd40", "unknown", "Amazon EC2 hpc7g.16xlarge"), 41.6),
    ],
)
def test_the_peak_of_a_core_is_by_its_units_and_the_length_of_its_vectors(facts, gflops):
    facts = dict(zip(("vector", "cpu_model", "clock_khz", "dmi"), facts))
    assert hardware.core_gflops(facts) == pytest.approx(gflops)
    # DGEMM at 85 % of it, with a clock that falls by a third where all cores use AVX, is healthy.
    values = {"star_dgemm": 0.55 * gflops, "hpl_of_peak": 50.0, "hpl_of_dgemm": 90.0}
    assert not deviations(a_case("hpcc", "openmpi", values, **facts))


def test_each_row_of_the_table_has_its_source():
    for row in hardware.processors():
        assert {"name", "model", "vector", "units", "bits", "source"} - row.keys() == set(), row
    unknown = {"vector": "sve128", "cpu_model": "0x41 part 0xfff", "clock_khz": "3000000"}
    assert hardware.core_gflops(unknown) is None


@pytest.mark.parametrize(
    "cores, cpus, threads, deviates",
    [(64, 128, 2, 0), (64, 64, 1, 0), (3, 6, 2, 0), (3, 3, 1, 0), (64, 64, 2, 1), (64, 63, 1, 1)],
)
def test_threads_of_cores_and_odd_cores_are_no_offline_cores(cores, cpus, threads, deviates):
    facts = {"cpus": str(cpus), "threads_per_core": str(threads)}
    case = a_case("osnoise", "gnu", {}, **facts)
    place = replace(case.place, extras={**case.place.extras, "cores_per_node": cores})
    assert len(deviations(replace(case, place=place))) == deviates


@pytest.mark.parametrize(
    "model, triad, deviates",
    [
        ("Intel(R) Xeon(R) CPU Max 9480", 1_300_000.0, 0),
        ("AMD EPYC 9V64H 88-Core Processor", 6_600_000.0, 0),
        ("Intel(R) Xeon(R) Platinum 8480+", 1_300_000.0, 1),
        # Sub-NUMA clusters: a process on one of four nodes, and all.
        ("Intel(R) Xeon(R) Platinum 8480+", 480_000.0, 0),
    ],
)
def test_memory_in_the_package_is_beyond_the_modules(model, triad, deviates):
    values = {"triad_1": 18_000.0, "triad_352": triad}
    case = a_case("stream", "gnu", values, cpu_model=model, memory_modules_mbps="614400")
    case = replace(case, place=replace(case.place, features=frozenset({"bare_metal"})))
    assert len(deviations(case)) == deviates


def test_a_fabrics_nic_is_known_by_its_driver():
    facts = {"hypervisor": "none", "nic.eth0.driver": "igb", "nic.eth0.speed": "1000"}
    facts |= {"nic.hsn0.driver": "cxi_ss1", "nic.hsn0.speed": "200000", "default_nic": "eth0"}
    link = node.link_of(facts)
    assert (link.nic, link.link_type, link.speed_gbps) == ("hsn0", "slingshot", 200)
    port = {"link_layer": "InfiniBand", "state": "4: ACTIVE", "rate": "100 Gb/sec (4X EDR)"}
    facts = {f"ib.hfi1_0.1.{key}": text for key, text in port.items()}
    link = node.link_of({**facts, "ib.hfi1_0.1.driver": "hfi1", "hypervisor": "none"})
    assert (link.link_type, link.speed_gbps) == ("omnipath", 100)
