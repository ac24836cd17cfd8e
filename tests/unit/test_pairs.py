"""The verdict on pairs of launches. Error rates over many are `make bench-gate`'s matter."""

import numpy as np
import pytest
from scipy import stats

from bench import noise as bench_noise
from nearmetal.stats import pairs, ranks
from nearmetal.stats.judge import JudgeError


def measured(shared: float, step: float = 0.0, count: int = 75, seed: int = 1):
    a, b = bench_noise.pairs(np.random.default_rng(seed), count, 0.08, shared)
    return a, b * (1 + step)


@pytest.mark.parametrize(
    "step, lower_is_better, word",
    [
        (0.0, True, "ok"),
        (0.05, True, "regressed"),
        (0.05, False, "improved"),
        (-0.05, True, "improved"),
        (-0.05, False, "regressed"),
    ],
)
def test_pairs_find_in_noise_of_8_percent_what_single_launches_cannot(step, lower_is_better, word):
    verdict = pairs.judge_pairs(*measured(0.95, step), lower_is_better, variables=200)
    assert (verdict.name, verdict.method) == (word, "paired")
    assert verdict.change == pytest.approx(step, abs=0.02)
    assert verdict.interval[0] < verdict.change < verdict.interval[1]
    assert verdict.shared_interval[0] < 0.95 < verdict.shared_interval[1]


def test_where_little_is_shared_the_launches_are_judged_as_two_samples():
    verdict = pairs.judge_pairs(*measured(0.0, 0.25), True, variables=200)
    assert (verdict.name, verdict.method) == ("regressed", "unpaired")
    assert verdict.shared < pairs.LEAST_SHARED
    assert pairs.judge_pairs(*measured(0.0, 0.05), True, variables=200).name != "regressed"


@pytest.mark.parametrize("shared", [0.0, 0.8, 0.95, 0.99])
def test_the_shared_part_is_measured_despite_outliers(shared):
    found = [
        pairs.shared_part(*map(np.log, measured(shared, count=50, seed=seed)))
        for seed in range(200)
    ]
    assert np.median([part for part, _ in found]) == pytest.approx(shared, abs=0.03)
    assert np.mean([low <= shared <= high for _, (low, high) in found]) > 0.9


def test_too_few_pairs_are_inconclusive_and_ask_for_more():
    verdict = pairs.judge_pairs(*measured(0.95, 0.05, count=7), True, variables=200)
    assert (verdict.name, verdict.pairs, verdict.wanted) == ("inconclusive", 7, 10)


def test_one_outlier_changes_no_verdict():
    a, b = measured(0.95)
    b[3] *= 40
    assert pairs.judge_pairs(a, b, True).name == "ok"


def test_equal_launches_are_no_evidence():
    same = np.full(20, 5.0)
    assert pairs.judge_pairs(same, same, True).name == "ok"
    assert pairs.judge_pairs(same, same * 1.1, True).name == "regressed"


@pytest.mark.parametrize(
    "a, b, message",
    [
        ([1.0] * 5, [1.0] * 4, "5 .*A .*4 .*B.* pairs"),
        ([], [], "do not form pairs"),
        ([1.0, -1.0], [1.0, 1.0], "samples of A hold a value"),
        ([1.0], [float("nan")], "samples of B hold a value"),
    ],
)
def test_what_cannot_be_judged_says_why(a, b, message):
    with pytest.raises(JudgeError, match=message):
        pairs.judge_pairs(a, b, True)


@pytest.mark.parametrize("count", [5, 12, 40])
def test_signed_rank_p_values_are_exact(count):
    differences = np.random.default_rng(count).normal(0.3, 1, count)
    exact = stats.wilcoxon(differences, alternative="greater", method="exact")
    assert ranks.signed_rank(differences) == pytest.approx(exact.pvalue, rel=1e-9)


def test_zeros_and_ties_are_counted_to_the_safe_side():
    assert ranks.signed_rank(np.zeros(10)) == 1
    assert ranks.signed_rank(np.array([1.0] * 9 + [0.0])) >= ranks.signed_rank(np.arange(1.0, 11.0))
