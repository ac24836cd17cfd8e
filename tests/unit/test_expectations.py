"""Expectations: the shipped files, the whitelist of expressions, and what is judged by them."""

import re
from dataclasses import replace

import pytest
import yaml

from nearmetal.checkout import CHECKOUT
from nearmetal.compare import published
from nearmetal.expectations import entries, expression, hardware, judge
from nearmetal.expectations.entries import ExpectationError, Other
from nearmetal.expectations.judge import Bounds, Measured, Place
from nearmetal.model import metrics
from nearmetal.site.system import schema as schema_of_systems

SHIPPED = entries.load()
NAMES = expression.Names({"a": 4, "text": "memory"}, {"triad_1": 10.0, "triad_2": 16.0})
MPI = frozenset({"mpi"})


def a_case(check="pingpong", values=None, placement="internode", environ=MPI, **extras):
    extras = {
        "link_class": "passthrough",
        "link_type": "ethernet",
        "link_speed_gbps": 10,
        "hypervisor": "xen-pv",
        **extras,
    }
    guest = extras["hypervisor"] != "none"
    place = Place(extras, frozenset({"mpi", "vm" if guest else "bare_metal"}), environ)
    parameters = {"placement": placement} if check == "pingpong" else {}
    return Measured(check, place, parameters, "here", "openmpi", values or {})


def names(case, session=None):
    session = None if session is None else judge.Others(session)
    return [one.expectation.name for one in judge.deviations(SHIPPED.values(), case, session)]


@pytest.mark.parametrize(
    "text, value",
    [
        ("0.5 * a", 2),
        (3, 3),
        ("-a + 1", -3),
        ("min(a, 10) / 2", 2),
        ("most_of('triad_*') / own.triad_1", 1.6),
        ("least_of('triad_?')", 10),
    ],
)
def test_an_expression_is_arithmetic_over_names(text, value):
    assert expression.parse(text).value(NAMES) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "a ** 99",
        "a.b",
        "[a]",
        "a if a else 1",
        "lambda: 1",
        "a < 1",
        "'text'",
        "True",
        True,
        None,
        "min(a)",
        "most_of(a)",
        "most_of('../*')",
        "open('x')",
        "min(a, key=a)",
        "min(*a, 1)",
        "1e400",
        "a +",
        "",
        "1+" * 200 + "1",
        "a\x00",
    ],
)
def test_whatever_else_is_refused_and_never_run(text):
    with pytest.raises(expression.ExpressionError):
        expression.parse(text)


@pytest.mark.parametrize("text", ["a / 0", "text * 2", "missing", "own.none", "most_of('x*')"])
def test_a_name_without_a_number_gives_no_bound(text):
    with pytest.raises(expression.UnknownValue):
        expression.parse(text).value(NAMES)


def test_a_sentence_prints_three_digits_and_says_what_is_not_known():
    said = expression.parse_sentence("{a / 3} of {100 * a} and {missing}").filled(NAMES)
    assert said == "1.33 of 400 and ?"
    for text in ("a {", "{} of", "{a b}"):
        with pytest.raises(expression.ExpressionError):
            expression.parse_sentence(text)


ENTRY = {
    "checks": ["tcp"],
    "variables": "peak_bandwidth",
    "most": "link_speed_gbps",
    "sentence": "{value} is too much",
    "reason": "why",
    "source": "law",
}


@pytest.mark.parametrize(
    "change, words",
    [
        ({"most": "link_sped_gbps"}, ["one.most", "link_sped_gbps", "link_speed_gbps?"]),
        ({"most": "open('x')"}, ["one.most", "unknown"]),
        ({"sentence": "{value + }"}, ["one.sentence", "not arithmetic"]),
        ({"sentence": "{speed}"}, ["one.sentence", "'speed' is unknown"]),
        ({"variables": "("}, ["one.variables", "regular expression"]),
        ({"where": {"hypervisor": "*"}}, ["one.where.hypervisor", "regular expression"]),
        ({"where": {"system": "lab"}}, ["one.where", "system"]),
        ({"reason": None}, ["one.reason"]),
        ({"variables": "a{99999999999}"}, ["one.variables", "regular expression"]),
        ({"variables": "(" * 3000}, ["one.variables", "regular expression"]),
        ({"parameters": {5: "internode"}}, ["one.parameters", "5"]),
        ({"others": {None: {"check": "tcp"}}}, ["one.others", "None"]),
        ({"most": None}, ["one.most", "Fix: write a number"]),
        ({"variables": ...}, ["one", "neither `variables` nor `of`"]),
        ({"checks": ["tcpp"]}, ["one.checks", "'tcpp'", "did you mean tcp?"]),
        ({"checks": ["tcp", "pingpongg"]}, ["one.checks", "did you mean pingpong?"]),
        ({"variables": "peak_bandwith"}, ["one.variables", "did you mean peak_bandwidth?"]),
        ({"variables": "triad_1"}, ["one.variables", "'triad_1' is unknown"]),
        ({"most": "own.peak_bandwith"}, ["one.most", "did you mean peak_bandwidth?"]),
        ({"sentence": "{own.peek_bandwidth}"}, ["one.sentence", "peak_bandwidth"]),
        ({"most": "most_of('lat_*')"}, ["one.most", "'lat_*' is unknown"]),
        ({"unit": "usec"}, ["one.unit", "'usec' is unknown"]),
        ({"unit": "us"}, ["one.unit", "have the unit Gb/s"]),
        ({"parameters": {"placment": "internode"}}, ["one.parameters", "did you mean placement?"]),
        ({"parameters": {"placement": "inter"}}, ["one.parameters.placement", "internode"]),
        ({"where": {"features": ["rdmaa"]}}, ["one.where.features", "did you mean rdma?"]),
        ({"where": {"features": ["-bare_metall"]}}, ["features", "did you mean bare_metal?"]),
        ({"where": {"environ_features": ["mpii"]}}, ["environ_features", "did you mean mpi?"]),
        ({"where": {"link_class": ["sriow"]}}, ["where.link_class.0", "did you mean sriov?"]),
        ({"where": {"link_typ": ["efa"]}}, ["one.where", "did you mean link_type?"]),
        ({"where": {"cpu_model": "("}}, ["one.where.cpu_model", "regular expression"]),
        ({"reasons": "why"}, ["one", "did you mean reason?"]),
        ({"fact": "compilr", "matches": "x"}, ["one.fact", "did you mean compiler?"]),
        ({"others": {"x": {"check": "pingpon"}}}, ["one.others.x.check", "pingpong?"]),
        ({"others": {"x": {"variable": "laten"}}}, ["one.others.x.variable", "'laten'"]),
        (
            {"others": {"x": {"check": "stream", "parameters": {"bindin": "bound"}}}},
            ["one.others.x.parameters", "did you mean binding?"],
        ),
    ],
)
def test_an_error_names_file_and_key(tmp_path, change, words):
    entry = {key: value for key, value in {**ENTRY, **change}.items() if value is not ...}
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump({"expectations": {"one": entry}}))
    with pytest.raises(ExpectationError) as error:
        entries.load(tmp_path)
    for word in ["bad.yaml", *words]:
        assert word in str(error.value)


def test_two_files_share_no_name_and_an_empty_directory_is_an_error(tmp_path):
    with pytest.raises(ExpectationError, match="holds no expectation"):
        entries.load(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({"expectations": {"one": ENTRY}}))
    with pytest.raises(ExpectationError, match=r"b\.yaml: expectations\.one: another file"):
        entries.load(tmp_path)


def test_shipped_names_of_extras_are_those_of_systems_and_units_have_a_direction():
    assert set(entries.EXTRAS) <= set(schema_of_systems()["$defs"]["extras"]["properties"])
    for one in SHIPPED.values():
        assert one.unit is None or metrics.unit(one.unit).better, one.name
        assert one.sentence.parts[-1] and not str(one.reason).endswith(" "), one.name


def test_no_expectation_names_a_system():
    systems = {path.stem for path in (CHECKOUT / "site-config/systems").glob("*.yaml")}
    for path in (CHECKOUT / "reframe_checks/references/expected").glob("*.yaml"):
        for entry in yaml.safe_load(path.read_text())["expectations"].values():
            selection = [str(entry.get(key)) for key in ("checks", "where", "parameters")]
            assert not {word for text in selection for word in re.findall(r"\w+", text)} & systems


def test_a_slow_link_is_said_in_the_words_of_its_share():
    [found] = judge.deviations(SHIPPED.values(), a_case(values={"peak_bandwidth": 0.93}))
    assert str(found) == (
        "peak_bandwidth: 0.93 Gb/s is 9.3 % of the link's 10 Gb/s; a NIC passed through gave "
        "72 % of 10 Gb/s (messaging paper, figure 4) (share_passthrough)"
    )


XEON = {"vector": "avx512", "clock_khz": "2500000"}
SLOW_NIC = {"nic.eth0.speed": "1000"}


@pytest.mark.parametrize(
    "case, expected",
    [
        (a_case(values={"peak_bandwidth": 93.0}), ["link_rate"]),
        (a_case(values={"bandwidth_64KiB": 10.1}), []),
        (a_case(values={"peak_bandwidth": 0.93}, link_speed_gbps="memory"), []),
        (a_case(values={"peak_bandwidth": 1.9}, environ=frozenset({"mpj"})), []),
        (a_case("tcp", {"peak_bandwidth": 2.0}, environ=frozenset()), ["tcp_share_passthrough"]),
        (a_case(values={"startup_latency": 80.0}), ["latency_passthrough"]),
        (a_case(values={"startup_latency": 0.3}), ["latency_of_a_nic"]),
        (a_case(values={"startup_latency": 20.0}, link_type="infiniband"), ["latency_infiniband"]),
        (
            a_case(values={"startup_latency": 5.0}, placement="intranode", hypervisor="none"),
            ["shared_memory"],
        ),
        (
            a_case(values={"startup_latency": 5.0}, placement="intranode"),
            ["shared_memory_of_a_guest"],
        ),
        (
            a_case("hpcc", {"star_dgemm": 2.0}, peak_gflops=76.8, cores_per_node=8),
            ["dgemm_of_peak"],
        ),
        (a_case("hpcc", {"star_dgemm": 8.0}, peak_gflops=76.8, cores_per_node=8), []),
        (a_case("hpcc", {"star_dgemm": 2.0, "hpl_of_dgemm": 150.0}), ["hpl_of_dgemm"]),
        (a_case("hpcc", {"hpl_of_peak": 20.0}), ["hpl_of_peak"]),
        (replace(a_case("hpcc", {"star_dgemm": 2.0}), facts=XEON), ["dgemm_of_core"]),
        (replace(a_case("hpcc", {"star_dgemm": 26.0}), facts=XEON), []),
        (replace(a_case(values={}), facts=SLOW_NIC), ["rate_of_the_nic"]),
        (replace(a_case(values={}), facts={"nic.eth0.speed": "10000"}), []),
        (replace(a_case(values={}), facts={"nic.eth0.speed": "unknown"}), []),
        (a_case("osnoise", {"share_lost": 47.0}), ["time_lost"]),
        (a_case("stream", {"triad_1": 9e3, "triad_2": 4e3}), ["memory_over_threads"]),
        (a_case("stream", {"triad_1": 9e3, "triad_2": 9e3}, memory_gbps=51.2), ["memory_share"]),
        (a_case("stream", {"triad_1": 6e4}, memory_gbps=51.2), ["memory_rate"]),
    ],
)
def test_what_is_beyond_which_expectation(case, expected):
    assert names(case) == expected


@pytest.mark.parametrize(
    "drivers, link_class, expected",
    [
        ("eth0: tap", "native", ["driver_native"]),
        ("docker0: bridge, ens3: virtio_net", "native", ["driver_native"]),
        ("eth0: mlx5_core, tap0: tun", "native", []),
        ("eth0: veth", "native", []),
        ("no network interface", "native", []),
        ("ens3: virtio_net", "passthrough", []),
        ("ens3: virtio_net", "emulated", []),
    ],
)
def test_a_hypervisors_nic_is_not_native(drivers, link_class, expected):
    case = a_case(values={}, link_class=link_class, hypervisor="none")
    assert names(replace(case, facts={"nic_driver": drivers})) == expected


def test_ep_is_told_from_the_other_kernels():
    place = a_case().place
    for kernel, expected in (("ep", ["ep_efficiency"]), ("cg", [])):
        values = {"efficiency_S_2": 50.0}
        case = Measured("npb", place, {"benchmark": kernel}, values=values)
        assert names(case) == expected
    case = Measured("npb", place, {"benchmark": "cg"}, values={"efficiency_S_2": 250.0})
    assert names(case) == ["efficiency_above_ideal"]


@pytest.mark.parametrize(
    "repeats, expected",
    [
        ((30.0, 31.0, 450.0), []),  # one stray repeat does not move the median
        ((2.0, 30.0, 31.0), []),
        ((30.0, 31.0, 29.0, 450.0, 460.0), ["repeats_alike"]),
        ((30.0, 450.0), ["repeats_alike"]),
    ],
)
def test_repeats_that_differ_tenfold(repeats, expected):
    samples = {"startup_latency": repeats, "longest_detour": (1.0, 99.0)}
    values = dict.fromkeys(samples, 31.0)
    case = Measured("pingpong", a_case().place, {}, values=values, samples=samples)
    assert names(case) == []  # no case fails by it
    assert names(case, [case]) == expected


def test_consistency_needs_the_other_case_and_is_silent_without():
    slow = a_case(values={"startup_latency": 9.0}, link_speed_gbps="memory", link_type="software")
    tcp = a_case("tcp", {"startup_latency": 90.0}, environ=frozenset())
    within = a_case(values={"startup_latency": 12.0}, placement="intranode")
    assert names(slow, [slow]) == []
    assert names(slow, [slow, tcp]) == ["mpi_beside_tcp"]
    assert names(slow, [slow, tcp, within]) == ["mpi_beside_tcp", "within_below_between"]
    # TCP's process sleeps, and a virtual machine wakes up late: the library polls.
    asleep = a_case("tcp", {"startup_latency": 30.0}, environ=frozenset())
    assert names(slow, [slow, asleep]) == []


@pytest.mark.parametrize(
    "tcp, mpi, deviates",
    [
        (28.0, 1.0, True),  # passthrough's TCP, and shared memory
        (35.0, 3.0, True),
        (31.0, 8.0, False),  # docs/traps.md: awake
        (35.0, 28.0, False),
        (8.0, 1.0, True),
        (8.0, 5.0, False),
        (90.0, 9.0, True),
    ],
)
def test_mpi_far_below_tcp_did_not_use_it(tcp, mpi, deviates):
    software = {"link_speed_gbps": "memory", "link_type": "software"}
    case = a_case(values={"startup_latency": mpi}, **software)
    other = a_case("tcp", {"startup_latency": tcp}, environ=frozenset())
    assert (names(case, [case, other]) == ["mpi_beside_tcp"]) == deviates
    roce = replace(case, place=replace(case.place, features=frozenset({"rdma"})))
    assert names(roce, [roce, other]) == []


@pytest.mark.parametrize(
    "within, between, link, deviates",
    [
        (40.0, 9.0, "ethernet", False),
        (4.0, 9.0, "ethernet", True),
        (8.0, 9.0, "software", False),
        (80.0, 190.0, "infiniband", False),  # a NIC may copy faster than a core
    ],
)
def test_a_node_within_is_no_slower_than_between(within, between, link, deviates):
    case = a_case(values={"peak_bandwidth": within}, placement="intranode", link_type=link)
    other = a_case(values={"peak_bandwidth": between}, link_type=link)
    found = judge.deviations(SHIPPED.values(), case, judge.Others([case, other]))
    assert [one.expectation.name for one in found] == ["within_above_between"] * deviates
    assert not deviates or "within a node 4 Gb/s, between nodes 9 Gb/s" in str(found[0])


@pytest.mark.parametrize(
    "hpcg, expected",
    [
        ({"bandwidth_A_1": 4173.0}, []),
        ({"bandwidth_A_1": 400.0}, ["hpcg_beside_stream"]),
        ({"bandwidth_B_1": 90000.0}, ["hpcg_beside_stream"]),
        ({"bandwidth_S_1": 90000.0, "bandwidth_A_16": 90000.0}, []),  # a cache, and many processes
    ],
)
def test_hpcg_moves_about_what_stream_does(hpcg, expected):
    case = a_case("hpcg", hpcg)
    stream = a_case("stream", {"triad_1": 8236.0}, environ=frozenset({"openmp"}))
    assert names(case, [case, stream]) == expected and names(case, [case]) == []


def test_passthrough_is_held_against_native_of_the_same_link():
    case = a_case(values={"startup_latency": 20.0, "peak_bandwidth": 7.0})
    quiet = {"startup_latency": 15.0, "peak_bandwidth": 8.0}
    for values, link, expected in (
        (quiet, 10, []),
        ({"startup_latency": 900.0, "peak_bandwidth": 0.2}, 10, 2),
        ({"startup_latency": 900.0, "peak_bandwidth": 0.2}, 40, 0),
    ):
        native = a_case(values=values, link_class="native", link_speed_gbps=link)
        native = replace(native, partition="native")
        assert len(names(case, [case, native])) == (expected or 0)


def test_references_are_the_tightest_bounds_known_before_the_run():
    found = judge.references(SHIPPED.values(), a_case(), ["peak_bandwidth", "startup_latency"])
    assert found["peak_bandwidth"] == Bounds(pytest.approx(3.6), pytest.approx(10.2))
    assert found["startup_latency"] == Bounds(0.5, 70)
    unknown = a_case(link_speed_gbps="unknown", link_type="software")
    assert judge.references(SHIPPED.values(), unknown, ["peak_bandwidth"]) == {}


def test_a_site_overrides_a_bound_with_a_reason_for_some_variables_too():
    change = {"share_passthrough": {"least": "0.05 * link_speed_gbps", "reason": "old switch"}}
    own = entries.overridden(SHIPPED, change, "here:batch: extras.expected")
    case = a_case(values={"peak_bandwidth": 0.93})
    assert not judge.deviations(own.values(), case)
    [found] = judge.deviations(own.values(), a_case(values={"peak_bandwidth": 0.1}))
    assert "The site's bound: old switch." in str(found)
    change = {"link_rate": {"most": "none", "variables": "peak_.*", "reason": "a bond"}}
    own = entries.overridden(SHIPPED, change, "here:batch: extras.expected")
    case = a_case(values={"peak_bandwidth": 19.0, "bandwidth_64KiB": 19.0})
    assert [one.variable for one in judge.deviations(own.values(), case)] == ["bandwidth_64KiB"]


@pytest.mark.parametrize(
    "change, words",
    [
        ([], "is no mapping"),
        ({"share_passthru": {"least": 1, "reason": "x"}}, "share_passthrough?"),
        ({"link_rate": {"most": 1}}, "link_rate.reason: is missing"),
        ({"link_rate": {"most": 1, "reason": " "}}, "link_rate.reason: is missing"),
        ({"link_rate": {"reason": "x"}}, "link_rate: has no bound"),
        ({"link_rate": {"most": "f(1)", "reason": "x"}}, "link_rate.most: the function 'f'"),
        ({"link_rate": {"more": 1, "reason": "x"}}, "link_rate: write a mapping"),
        (
            {"link_rate": {"least": "none", "reason": "x"}},
            "link_rate.least: the expectation has no",
        ),
        ({"link_rate": {"matches": "x", "reason": "x"}}, "link_rate.matches: the expectation is"),
        ({"link_rate": {"most": "own.peak", "reason": "x"}}, "link_rate.most: the variable 'peak'"),
        (
            {"link_rate": {"most": 1, "variables": "peak_bandwith", "reason": "x"}},
            "link_rate.variables: the variable 'peak_bandwith' is unknown; did you mean peak_band",
        ),
        (
            {"link_rate": {"most": 1, "variables": "startup_latency", "reason": "x"}},
            "link_rate.variables: it is about others. Fix: choose among",
        ),
        ({"optimized": {"least": 1, "reason": "x"}}, "optimized: it is about the fact compiler"),
        ({"optimized": {"matches": "(", "reason": "x"}}, "optimized.matches: '(' is no regular"),
        ({"memory_share": {"least": 1, "variables": "x", "reason": "x"}}, "has no variables"),
        ({"link_rate": {"most": 1, "variables": "(", "reason": "x"}}, "no regular expression"),
    ],
)
def test_an_error_in_a_sites_own_bounds_names_the_key(change, words):
    with pytest.raises(ExpectationError) as error:
        entries.overridden(SHIPPED, change, "here:batch: extras.expected")
    assert "here:batch: extras.expected" in str(error.value) and words in str(error.value)


def partitions():
    """(system, partition) -> extras, of the shipped systems."""
    found = {}
    for path in sorted((CHECKOUT / "site-config/systems").glob("*.yaml")):
        document = yaml.safe_load(path.read_text())
        for partition in document["partitions"]:
            found[document["name"], partition["name"]] = partition["extras"]
    return found


def test_published_figures_are_within_the_expectations_of_their_systems():
    extras, compared = partitions(), 0
    for figure in published.load():
        where = (figure.system, figure.partition)
        known = figure.value is not None or figure.range
        if figure.relative_to or where not in extras or not known:
            continue
        features = frozenset({"vm"} if extras[where]["hypervisor"] != "none" else {"bare_metal"})
        java = figure.environ == "fastmpj"
        place = Place(extras[where], features, frozenset({"mpj"}) if java else MPI)
        for value in {figure.value, *(figure.range or ())} - {None}:
            case = Measured(figure.check, place, figure.parameters, values={figure.variable: value})
            found = judge.deviations(SHIPPED.values(), case)
            # Of several variables of a case, such as STREAM's, a figure is only one.
            assert not [one for one in found if not one.expectation.of.over_own], figure
            applied = [one for one in SHIPPED.values() if judge.applies(one, case)]
            compared += any(
                one.variables and re.fullmatch(one.variables, figure.variable) for one in applied
            )
    assert compared > 10


def test_published_stream_is_within_the_rate_of_its_memory():
    extras = partitions()
    best: dict[tuple, dict[str, float]] = {}
    for figure in published.load():
        if figure.check == "stream" and figure.value and not figure.relative_to:
            values = best.setdefault((figure.system, figure.partition), {})
            values[figure.variable] = max(figure.value, values.get(figure.variable, 0))
    assert len(best) > 1
    for where, values in best.items():
        case = Measured("stream", Place(extras[where]), values=values)
        assert extras[where]["memory_gbps"]
        assert names(case) == [], (where, values)


def test_every_shipped_partition_with_a_known_link_has_bounds():
    for (system, partition), extras in partitions().items():
        case = a_case(**extras)
        found = judge.references(SHIPPED.values(), case, ["peak_bandwidth", "startup_latency"])
        if not isinstance(extras["link_speed_gbps"], str):
            assert found["peak_bandwidth"].least and found["peak_bandwidth"].most, system
            assert found["startup_latency"].least, (system, partition)


def of_facts(case, **facts):
    return replace(case, facts={**case.facts, **facts})


MTU = {"nic.eth0.mtu": "1500", "nic.flannel.1.mtu": "1450", "nic.tailscale0.mtu": "576"}


@pytest.mark.parametrize(
    "transport, mtu, deviates",
    [
        ("eth0 (ena)", {}, False),  # the others carried nothing
        ("eth0 (ena)", {"nic.eth0.mtu": "9001"}, False),
        ("eth0 (gve)", {"nic.eth0.mtu": "1460"}, False),
        ("flannel.1 (vxlan)", {}, False),
        ("eth0 (veth)", {"nic.eth0.mtu": "576"}, True),
        ("eth0 (veth)", {"nic.eth0.mtu": "1500 | 576"}, True),
        ("eth0 (veth)", {"nic.eth0.mtu": "unknown"}, False),
        ("eth0 (ena) + tailscale0 (tun)", {}, True),
        ("eth0 (ena) | tailscale0 (tun)", {}, True),
        ("rxe0/1 over tailscale0 (tun)", {}, True),
        ("mlx5_0/1", {"nic.eth0.mtu": "576"}, False),
        ("shared memory or kernel bypass", {"nic.eth0.mtu": "576"}, False),
        ("", {"nic.eth0.mtu": "576"}, False),
    ],
)
def test_small_frames_are_named_where_they_carried_the_messages(transport, mtu, deviates):
    case = of_facts(a_case(), transport=transport, **{**MTU, **mtu})
    found = judge.deviations(SHIPPED.values(), case)
    assert [one.expectation.name for one in found] == ["mtu"] * deviates
    assert not deviates or "sends frames of 576 bytes" in str(found[0])


def test_a_site_overrides_what_is_expected_of_facts():
    small = of_facts(a_case(), transport="eth0 (tap)", **{"nic.eth0.mtu": "1000"})
    change = {"mtu": {"least": "none", "reason": "a tunnel"}}
    own = entries.overridden(SHIPPED, change, "file: here:batch")
    assert names(small) == ["mtu"] and not judge.deviations(own.values(), small)
    plain = of_facts(a_case("stream"), compiler="gcc 14.2.0 -O0")
    for key in ("matches", "least"):
        change = {"optimized": {key: "none", "reason": "a debugger"}}
        own = entries.overridden(SHIPPED, change, "file: here:batch")
        assert names(plain) == ["optimized"] and not judge.deviations(own.values(), plain)
        assert own["optimized"].asked == "no bound"
    change = {"optimized": {"matches": ".* -O[123].*", "reason": "O2 is the least"}}
    own = entries.overridden(SHIPPED, change, "file: here:batch")
    [found] = judge.deviations(own.values(), plain)
    assert "The site's bound: O2 is the least." in str(found)


def test_bounds_without_a_possible_value_name_both_and_the_key():
    change = {"share_passthrough": {"least": 15, "reason": "a bond"}}
    own = entries.overridden(SHIPPED, change, "site.yaml: here:batch: extras.expected")
    described = "site.yaml: here:batch"
    case = replace(a_case(), place=replace(a_case().place, described=described))
    with pytest.raises(ExpectationError) as error:
        judge.references(own.values(), case, ["peak_bandwidth"])
    assert str(error.value) == (
        "peak_bandwidth has no possible value: share_passthrough expects at least 15, and "
        "link_rate expects at most 10.2 (1.02 * link_speed_gbps). Fix: correct "
        "site.yaml: here:batch: extras.expected.share_passthrough or "
        "site.yaml: here:batch: extras.link_speed_gbps"
    )
    slow = a_case(link_type="efa", link_speed_gbps=3)
    with pytest.raises(ExpectationError, match="efa_is_used expects at least 10, and link_rate"):
        judge.references(SHIPPED.values(), slow, ["peak_bandwidth"])


def test_a_bound_is_of_links_of_a_speed():
    for speed, value, expected in (
        (400, 330.0, ["share_rdma_of_today"]),
        (400, 390.0, []),
        (32, 25.0, []),  # QDR
        ("unknown", 25.0, []),
    ):
        link = {"link_type": "infiniband", "link_speed_gbps": speed}
        assert names(a_case("rdma", {"peak_bandwidth": value}, **link)) == expected
    for speed, value, expected in (
        (200, 3.5, ["latency_infiniband_of_today"]),
        (200, 1.2, []),
        (56, 3.5, []),
    ):
        link = {"link_type": "infiniband", "link_speed_gbps": speed}
        assert names(a_case(values={"startup_latency": value}, **link)) == expected


def test_one_flow_on_ec2_says_whether_nodes_are_in_one_placement_group():
    ena = {"link_class": "sriov", "link_speed_gbps": 100, "hypervisor": "nitro"}
    for value, expected in ((4.9, ["tcp_flow_on_ec2"]), (9.5, [])):
        assert names(a_case("tcp", {"peak_bandwidth": value}, frozenset(), **ena)) == expected


@pytest.mark.parametrize(
    "model, triad, expected",
    [
        ("AMD EPYC 7V73X 64-Core Processor", 1.2e5, ["stream_hbv3"]),
        ("AMD EPYC 7V73X 64-Core Processor", 3.3e5, []),
        ("AMD EPYC 9V33X 96-Core Processor", 3.2e5, ["stream_hbv4"]),
        ("AMD EPYC 9V33X 96-Core Processor | AMD EPYC", 3.2e5, []),
        ("AMD EPYC", 1.2e5, []),
    ],
)
def test_a_processors_published_stream_is_expected_of_that_processor(model, triad, expected):
    case = of_facts(a_case("stream", {"triad_120": triad}), cpu_model=model)
    assert names(case) == expected


@pytest.mark.parametrize(
    "facts, expected",
    [
        ({"cpus": "8", "threads_per_core": "1"}, []),
        ({"cpus": "4", "threads_per_core": "1"}, ["cores_online"]),
        ({"cpus": "8 | 4", "threads_per_core": "1"}, ["cores_online"]),
        ({"cpus": "8", "threads_per_core": "2"}, ["cores_online"]),
        ({"cpus": "16", "threads_per_core": "2"}, []),
        ({"cpus": "8"}, []),
        ({"cpus": "4"}, ["cores_online"]),
        ({"cpus": "unknown"}, []),
        ({"mem_total_kb": "16250000"}, []),
        ({"mem_total_kb": "8125000"}, ["memory_there"]),
        ({"mem_total_kb": "8125000 | 16250000"}, ["memory_there"]),
    ],
)
def test_cores_and_memory_are_those_of_the_systems_file(facts, expected):
    node = {"cores_per_node": 8, "memory_gb": 16}
    assert names(of_facts(a_case("stream", **node), **facts)) == expected
    assert names(of_facts(a_case("stream"), **facts)) == []


def test_a_guests_memory_is_not_its_hosts():
    guest = of_facts(a_case("stream", memory_gb=16, guest_memory_gb=3), mem_total_kb="2900000")
    assert names(guest) == []
    assert names(of_facts(guest, mem_total_kb="1500000")) == ["memory_there"]
    [found] = judge.deviations(SHIPPED.values(), of_facts(guest, mem_total_kb="1500000"))
    assert "a node has 1.54 GB of memory, and 3 GB in the system's file" in str(found)


def test_stream_is_held_against_the_modules_of_a_bare_node():
    bare = a_case("stream", {"triad_1": 4e4, "triad_8": 4e4}, hypervisor="none")
    modules = {"memory_modules_mbps": "409600"}
    assert names(bare) == names(of_facts(bare, memory_modules_mbps="unknown")) == []
    assert names(of_facts(bare, **modules)) == ["memory_share_of_modules"]
    fast = replace(of_facts(bare, **modules), values={"triad_1": 5e5})
    assert names(fast) == ["memory_rate_of_modules"]
    guest = of_facts(a_case("stream", {"triad_1": 5e5}), **modules)
    assert names(guest) == []  # its modules are made up


@pytest.mark.parametrize(
    "compiler, deviates",
    [("gcc 14.2.0 -O2 -fopenmp", False), ("gcc 14.2.0 -O0 -fopenmp", True), ("gcc -O0", True)],
)
def test_a_program_without_optimization_is_named(compiler, deviates):
    case = replace(a_case("stream"), facts={"compiler": compiler})
    assert ("optimized" in names(case)) == deviates


@pytest.mark.parametrize(
    "facts, gflops",
    [
        ({"vector": "avx512", "cpu_model": "Intel(R) Xeon(R) Processor @ 2.50GHz"}, 80.0),
        ({"vector": "fma", "cpu_model": "AMD EPYC 7V73X", "clock_khz": "3500000"}, 56.0),
        ({"vector": "fma", "cpu_model": "AMD EPYC 7V73X", "clock_khz": "unknown"}, None),
        ({"vector": "fma | avx512", "clock_khz": "3500000"}, None),
        ({"clock_khz": "3500000"}, None),
    ],
)
def test_a_cores_peak_follows_from_its_facts(facts, gflops):
    assert hardware.core_gflops(facts) == gflops


@pytest.mark.parametrize(
    "facts, gbps",
    [
        ({"nic.eth0.speed": "10000"}, 10.0),
        ({"nic.eth0.speed": "10000", "nic.ib0.speed": "100000"}, 110.0),
        ({"nic.eth0.speed": "10000", "nic.eth1.speed": "unknown"}, None),
        ({"nic.eth0.speed": "10000 | 1000"}, None),
        ({"nic.eth0.driver": "ena"}, None),
    ],
)
def test_a_nodes_rate_is_known_where_every_nic_tells_its_own(facts, gbps):
    assert hardware.nic_gbps(facts) == gbps


@pytest.mark.parametrize("other", [Other(), Other(link_class="native")], ids=["own", "native"])
def test_other_cases_are_looked_up_and_not_searched(monkeypatch, other):
    place, looked_at = Place({"link_class": "native"}), []
    is_wanted = judge._Wanted.__contains__
    monkeypatch.setattr(
        judge._Wanted,
        "__contains__",
        lambda wanted, case: looked_at.append(case) or is_wanted(wanted, case),
    )
    cases = [
        Measured("x", place, {"size": str(size)}, "here", f"e{size % 4}", {"v": float(size)})
        for size in range(200)
    ]
    others = judge.Others(cases)
    medians = [others.median(other, case, "v")[1] for case in cases]
    assert medians == [*map(float, range(200))]
    assert len(looked_at) < 2 * len(cases)
