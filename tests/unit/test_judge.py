"""The verdict on one variable. Error rates over many are `make bench-gate`'s matter."""

import numpy as np
import pytest
from scipy import stats

from nearmetal.stats import judge, plan, ranks
from nearmetal.stats.judge import JudgeError

BASE = np.exp(np.random.default_rng(7).normal(0, 0.02, 60)) * 10  # us


def fresh(factor: float, count: int = plan.ANALYSES[-1], noise: float = 0.02):
    return np.exp(np.random.default_rng(8).normal(0, noise, count)) * 10 * factor


@pytest.mark.parametrize(
    "factor, lower_is_better, word",
    [
        (1.0, True, "ok"),
        (1.0, False, "ok"),
        (1.1, True, "regressed"),
        (1.1, False, "improved"),
        (0.9, True, "improved"),
        (0.9, False, "regressed"),
    ],
)
def test_direction_decides_what_a_change_is_called(factor, lower_is_better, word):
    verdict = judge.judge(BASE, fresh(factor), lower_is_better, variables=200)
    assert verdict.name == word
    assert verdict.interval[0] < verdict.change < verdict.interval[1]
    assert verdict.change == pytest.approx(factor - 1, abs=0.03)
    assert verdict.samples in plan.ANALYSES


def test_the_first_look_that_decides_stands_and_later_launches_change_nothing():
    early = judge.judge(BASE, fresh(1.2), True)
    assert early.samples == plan.ANALYSES[0]
    assert judge.judge(BASE, [*fresh(1.2)[: plan.ANALYSES[0]], *[10.0] * 20], True) == early


def test_too_few_launches_are_inconclusive_and_ask_for_more():
    verdict = judge.judge(BASE, fresh(1.0, plan.ANALYSES[0] - 1), True)
    assert (verdict.name, verdict.more) == ("inconclusive", plan.CONFIRMATION_ANALYSES)


def test_noise_that_hides_every_change_never_passes_for_ok():
    wild = np.exp(np.random.default_rng(9).normal(0, 1.5, 60))
    verdict = judge.judge(
        wild, np.exp(np.random.default_rng(10).normal(0, 1.5, plan.ANALYSES[-1])), True
    )
    assert (verdict.name, verdict.detectable, verdict.more) == ("inconclusive", None, ())


def test_one_outlier_changes_no_verdict():
    launches = fresh(1.0)
    launches[0] *= 40
    assert judge.judge(BASE, launches, True).name == "ok"


def test_a_sure_change_below_the_threshold_is_no_regression():
    base = np.exp(np.random.default_rng(7).normal(0, 0.001, 60))
    assert judge.judge(base, np.full(40, 1.01), True).name == "ok"


def test_more_variables_make_each_verdict_more_careful():
    slight = fresh(1.04)
    assert (
        judge.judge(BASE, slight, True, variables=1).samples
        <= judge.judge(BASE, slight, True, variables=10000).samples
    )


@pytest.mark.parametrize("new, base", [(5, 20), (7, 40), (14, 33), (20, 60)])
def test_p_values_are_exact(new, base):
    rng = np.random.default_rng(new)
    x, y = rng.normal(0.5, 1, new), rng.normal(0, 1, base)
    exact = stats.mannwhitneyu(x, y, alternative="greater", method="exact")
    assert ranks.mann_whitney(new, base)[int(exact.statistic)] == pytest.approx(
        exact.pvalue, rel=1e-9
    )


def test_equal_samples_are_no_evidence():
    assert judge.judge(np.full(30, 5.0), np.full(10, 5.0), True).name == "ok"


@pytest.mark.parametrize(
    "base, launches, message",
    [
        (BASE[:10], [10.0] * 5, "10 samples.* 20"),
        (BASE, [], "no sample"),
        (BASE, [10, float("nan")], "samples hold a value"),
        (BASE, [10, -1], "not positive"),
        ([*BASE, -1], [10.0] * 5, "baseline hold a value"),
    ],
)
def test_what_cannot_be_judged_says_why(base, launches, message):
    with pytest.raises(JudgeError, match=message):
        judge.judge(base, launches, True)


def test_a_change_is_confirmed_by_fresh_samples_alone():
    first, again = fresh(1.1, 5), np.exp(np.random.default_rng(11).normal(0, 0.02, 20)) * 10
    assert judge.judge(BASE, first, True, variables=200).name == "regressed"
    held = judge.judge_fresh(BASE, first, again * 1.1, True, variables=200)
    assert (held.name, held.samples, held.by_fresh, held.more) == ("regressed", 10, True, ())
    gone = judge.judge_fresh(BASE, first, again, True, variables=200)
    assert gone.name == "ok" and abs(gone.change) < 0.02


def test_a_few_fresh_samples_ask_for_the_rest_of_an_analysis():
    verdict = judge.judge_fresh(BASE, fresh(1.1, 9), [10.3, 10.7], True, variables=200)
    assert (verdict.name, verdict.samples, verdict.more) == ("inconclusive", 2, (8, 18, 30))


def test_a_change_that_the_first_samples_hardly_show_is_found_by_fresh_ones():
    first = [10.2, 10.4, 10.0, 10.3, 10.5]
    open_still = judge.judge(BASE, first, True, variables=200)
    assert (open_still.name, open_still.screened) == ("inconclusive", True)
    slight = judge.judge_fresh(BASE, first, fresh(1.05, 32), True, variables=200, measured=20)
    assert slight.name == "regressed" and slight.change == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize("lower_is_better", [True, False])
def test_only_a_change_for_the_worse_is_worth_fresh_samples(lower_is_better):
    higher = [10.2, 10.4, 10.0, 10.3, 10.5]
    verdict = judge.judge(BASE, higher, lower_is_better, variables=200)
    assert (verdict.name, verdict.screened) == ("inconclusive", lower_is_better)


def test_a_shift_that_days_make_is_not_worth_fresh_samples():
    higher = [10.2, 10.4, 10.0, 10.3, 10.5]
    assert judge.judge(BASE, higher, True, 200, drift=0.001).screened
    assert not judge.judge(BASE, higher, True, 200, drift=0.03).screened
    assert not judge.judge(BASE, higher, True, 200, drift=0.01, contrast=9.0).screened


def test_what_was_ok_stays_so():
    first = [10.0, 10.1, 9.9, 10.2, 9.8]
    assert judge.judge(BASE, first, True).name == "ok"
    assert judge.judge_fresh(BASE, first, fresh(1.2), True) == judge.judge(BASE, first, True)


def test_a_baseline_by_session_and_a_flat_one_without_drift_judge_alike():
    sessions = BASE.reshape(12, 5)
    assert (
        judge.judge(sessions.tolist(), fresh(1.1), True).name
        == judge.judge(BASE, fresh(1.1), True).name
        == "regressed"
    )


def test_confirmation_without_fresh_samples_is_refused():
    with pytest.raises(JudgeError, match="no sample"):
        judge.judge_fresh(BASE, fresh(1.1, 5), [], True)


def test_fresh_samples_that_show_the_opposite_end_the_confirmation():
    found = judge.judge_fresh(BASE, fresh(1.2, 5), fresh(0.8, 20), True, variables=200)
    assert (found.name, found.opposed, found.more) == ("inconclusive", True, ())
    open_still = judge.judge_fresh(BASE, fresh(1.2, 5), [9.8, 10.6, 10.4], True, variables=200)
    assert open_still.name == "inconclusive" and not open_still.opposed and open_still.more


@pytest.mark.parametrize("new, base", [(32, 500), (480, 960), (75, 5000)])
def test_p_values_of_large_samples_are_those_of_the_normal_approximation(new, base):
    found = ranks.mann_whitney(new, base)
    assert np.isfinite(found).all() and found.min() >= 0 and found[0] == pytest.approx(1)
    deviation = np.sqrt(new * base * (new + base + 1) / 12)
    for far in (0.0, 1.0, 2.0, 3.0):
        at = int(new * base / 2 + far * deviation)
        assert found[at] == pytest.approx(stats.norm.sf(far), rel=0.1)


@pytest.mark.parametrize("lower_is_better, name", [(True, "improved"), (False, "regressed")])
def test_a_value_of_0_is_smaller_than_all_others(lower_is_better, name):
    decision = judge.judge(BASE, [0.0] * 5, lower_is_better, variables=200)
    assert (decision.name, decision.change) == (name, -1)
    assert np.isfinite(decision.interval).all()
    once = judge.judge(BASE, [10.0, 0.0, 10.1, 9.9, 10.0], lower_is_better, variables=200)
    assert once.name in ("ok", "inconclusive") and abs(once.change) < 0.02


def test_ranks_of_few_repeats_need_more_of_them_where_variables_are_many():
    assert plan.least_repeats(20, 236) == 5 and plan.least_repeats(20, 237) == 7
    assert plan.least_repeats(21, 293) == 7 and plan.least_repeats(60, 200) == 5


@pytest.mark.parametrize("factor, name", [(100, "regressed"), (1.9, "inconclusive")])
def test_a_huge_change_needs_no_ranks(factor, name):
    decision = judge.judge(BASE[:20], BASE[20:25] * factor, True, variables=400)
    assert decision.name == name


def test_a_change_near_the_limit_is_one_of_at_least_so_much():
    """The samples that show it were selected: their mean exaggerates it."""
    near = judge.judge(BASE, fresh(1.08, 5), True, variables=200)
    assert (near.name, near.selected) == ("regressed", True)
    assert 0 <= near.interval[0] < near.change and near.interval[0] < 0.06
    far = judge.judge(BASE, fresh(1.2, 5), True, variables=200)
    assert (far.name, far.selected) == ("regressed", False) and far.interval[0] > 0.15
    again = judge.judge_fresh(BASE, fresh(1.08, 5), fresh(1.08, 10), True, variables=200)
    assert (again.name, again.selected) == ("regressed", False)


def test_intervals_after_selection_hold_their_level():
    rng, errors, count = np.random.default_rng(5), 0, 0
    for _ in range(300):
        base = np.exp(rng.normal(0, 0.03, 60))
        decision = judge.judge(base, np.exp(rng.normal(0.05, 0.03, 5)), True, variables=200)
        if decision.name == "regressed":
            count += 1
            errors += not decision.interval[0] <= np.expm1(0.05) <= decision.interval[1]
    assert count > 15 and errors <= 0.1 * count
