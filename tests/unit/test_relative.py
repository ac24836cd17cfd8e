"""Ratios to native: drift that partitions share cancels, and a change of native is not theirs."""

import statistics
from dataclasses import replace

import pytest

from nearmetal import results
from nearmetal.judge import baseline, native_ratio, record
from nearmetal.judge.baseline import Baseline
from tests.support.campaigns import campaign
from tests.support.judging import judge_session

EVERY = ("", "", "", "")  # of campaign(): check, partition, environment, variable
TIMES = "latency"


def parsed(number, **options):
    return results.parse_session(campaign(number, **options), "here")


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A baseline of twelve sessions."""
    path = tmp_path_factory.mktemp("baseline") / "lab.yaml"
    after, _ = record.record([parsed(number) for number in range(12)], Baseline("lab", path, {}))
    baseline.save(after)
    return baseline.load("lab", path.parent)


def names(report, chosen=lambda one: True):
    return {one.name for one in report.verdicts if one.variable and chosen(one)}


def test_a_ratio_is_a_sample_over_the_native_median():
    session = native_ratio.with_ratios(parsed(1))
    values = {(v.partition, v.environ, v.variable): v for v in session.values}
    native = values["native", "mpich", "startup_latency"]
    ratio = values["emulated", "mpich", "startup_latency_over_native"]
    own = values["emulated", "mpich", "startup_latency"]
    assert ratio.samples == tuple(s / statistics.median(native.samples) for s in own.samples)
    assert (
        ratio.lower_is_better and ("native", "mpich", "startup_latency_over_native") not in values
    )


def test_a_slower_partition_is_named_by_both_variables(known):
    steps = [(("", "emulated", "mpich", "startup_latency"), 1.2)]
    report = judge_session(parsed(101, steps=steps, launches=10), known)
    worse = {one.variable for one in report.verdicts if one.name == "regressed"}
    assert worse == {"startup_latency", "startup_latency_over_native"}


def test_drift_that_all_partitions_share_leaves_the_ratios(known):
    steps = [((*EVERY[:3], "startup_latency"), 1.2)]
    report = judge_session(parsed(102, steps=steps, launches=10), known)
    assert names(report, lambda one: one.variable == "startup_latency") == {"regressed"}
    ratios = names(report, lambda one: one.variable == "startup_latency_over_native")
    assert "regressed" not in ratios and "improved" not in ratios


def test_a_change_of_native_alone_is_no_change_of_the_ratios(known):
    steps = [(("", "native", "mpich", "startup_latency"), 0.7)]
    report = judge_session(parsed(103, steps=steps, launches=10), known)
    assert report.verdict == "clean"
    ratios = [one for one in report.verdicts if one.variable == "startup_latency_over_native"]
    reasons = {one.reason for one in ratios if one.environ == "mpich"}
    assert reasons == {"the native variable itself improved"}


def test_a_session_without_native_is_no_incomplete_one(known):
    session = parsed(104)
    alone = replace(
        session,
        cases=tuple(case for case in session.cases if case.partition == "emulated"),
        command="reframe -c reframe_checks -r --system lab:emulated",
        promised=2,
    )
    report = judge_session(alone, known)
    assert report.verdict == "clean"
    assert names(report, lambda one: native_ratio.is_ratio(one.variable)) == {"not judged"}


def test_another_native_partition_never_stands_in_for_the_first():
    """All cases of the first one failed."""
    session = parsed(104)
    cases = [replace(case, link_class="native") for case in session.cases]
    native = [case for case in cases if case.partition == "native"]
    second = [replace(case, partition="native2") for case in native]
    emulated = [replace(c, link_class="emulated") for c in cases if c.partition == "emulated"]
    whole = replace(session, cases=(*native, *second, *emulated))
    assert native_ratio.native_partition(whole) == "native"
    lost = [replace(case, failure="no node", phase="run", values=()) for case in native]
    broken = replace(session, cases=(*lost, *second, *emulated))
    assert (
        native_ratio.native_partition(broken) == "" and native_ratio.with_ratios(broken) == broken
    )


def test_a_baseline_of_an_older_version_has_no_ratios(known):
    entries = {
        key: replace(
            entry,
            **{
                name: {
                    k: v for k, v in getattr(entry, name).items() if not native_ratio.is_ratio(k)
                }
                for name in ("units", "values", "noise", "samples")
            },
        )
        for key, entry in known.entries.items()
    }
    report = judge_session(parsed(105, launches=10), replace(known, entries=entries))
    assert report.verdict == "clean" and len(report.verdicts) == 24


def test_a_session_with_ratios_gets_no_second_ones():
    session = native_ratio.with_ratios(parsed(1))
    assert native_ratio.with_ratios(session) == session
