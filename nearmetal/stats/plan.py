"""The plan of the sequential tests: error rates, interim analyses, detectable changes."""

import math

#: Chance that the noise between repeats raises any alarm in an unchanged campaign: a variable
#: called `regressed`, by the session alone. DAY_ERROR, the unknown part of the days' shifts and
#: pooled.POOLED_ERROR add 2 %. Analyses of the same repeats seldom err apart.
CAMPAIGN_ERROR = 0.04
#: Most unchanged sessions with any alarm, as a fraction, from LEAST_DAYS on. This is the promise
#: that users read. `make bench-gate` holds it against every noise ("unchanged campaigns").
ANY_ALARM = 0.05
#: Chance that fresh samples raise any alarm in an unchanged campaign, shared equally by the
#: variables that they were measured of. Screening favours variables whose baseline is low by
#: chance, which doubles it or so (`make bench-gate`).
CONFIRMATION_ERROR = 0.01
#: p-value of a change for the worse from which a variable is measured again: the least, and the
#: largest. Of few variables, a larger one costs few repeats.
SCREEN = (0.1, 0.5)
#: Number of unchanged variables that a screen may pass, within these bounds.
SCREENED = 20
#: Chance that the shifts of days alone raise any alarm in an unchanged campaign.
DAY_ERROR = 0.0085
#: Number of days from which a baseline shows how much days differ.
LEAST_DAYS = 8
#: Sessions that started within so many minutes are one level: they do not show how hours differ.
LEVEL_MINUTES = 30
#: Number of levels from which a baseline of few days shows something of how hours or days differ
#: (`make bench-gate`: "baseline of few levels").
LEAST_LEVELS = 3
#: Drift from day to day that is assumed beside the measured one where a baseline has fewer days, as
#: a fraction: shared systems differ by about as much where nothing is wrong with them.
PRIOR_DRIFT = 0.01
#: The same where a baseline has fewer levels too, and so measures nothing of it.
UNKNOWN_DRIFT = 0.02
#: Interim analyses: numbers of samples at which a variable is judged.
ANALYSES = (3, 5, 7, 10, 14, 20, 32, 50, 75)
#: Number of samples at which the minimum detectable change is found: the most fresh ones of a
#: confirmation.
REACH = 32
#: Least number of samples that show no change, where more are at hand. Three never show a small
#: change.
LEAST_UNCHANGED = 5
#: Interim analyses of a duet: numbers of pairs. Three pairs are never significant.
PAIRS = ANALYSES[1:]
#: Repeats of a session by default (checks/base.py).
REPEATS = 5
#: Numbers of fresh samples at which they are judged.
CONFIRMATION_ANALYSES = (10, 20, 32)
#: Smallest change that is reported, however significant.
THRESHOLD = 0.02
#: Smallest change that fresh samples confirm. Of one day, they cannot tell a change from the shift
#: of that day, and days of 1 % are hard to see (`make bench-gate`: "days 1 % in a fifth").
CONFIRMED = 0.03
#: Factor beyond which a change needs no rank test, if all samples show it.
HUGE = 2.0
#: Bounds of the minimum detectable change. Above the second, a variable is not judged.
DETECTABLE = (0.05, 1.0)
#: Power at the minimum detectable change.
POWER = 0.95
#: Power that an early `ok` and outliers take (`make bench-gate`: "what finds promises").
LOST_POWER = 0.015
#: Number of standard errors between the estimate of an `ok` and the minimum detectable change.
MARGIN = 3.0
#: Least number of baseline samples. Fewer cannot give a p-value below the alpha of one analysis.
LEAST_BASELINE = 20
#: Repeats of each of LEAST_LEVELS sessions that together are enough for a baseline.
LEVEL_REPEATS = -(-LEAST_BASELINE // LEAST_LEVELS)
#: Default number of sessions of a baseline. `make bench-gate` measures the error rates for it.
BASELINE_SESSIONS = 12


def least_drift(days: int, levels: int) -> float:
    """The drift that is assumed beside the measured one, of so many days and levels."""
    if days >= LEAST_DAYS:
        return 0.0
    return PRIOR_DRIFT if levels >= LEAST_LEVELS else UNKNOWN_DRIFT


def alpha(variables: float) -> float:
    """Error rate of one analysis of one variable: an equal part of the campaign's (Bonferroni)."""
    return CAMPAIGN_ERROR / variables / len(ANALYSES)


def least_repeats(samples: int, variables: float) -> int:
    """The fewest repeats that are significant by their ranks against so many samples of a baseline.

    Where all are beyond the baseline's, one of all orders is as extreme.
    """
    for count in ANALYSES:
        if 1 / math.comb(samples + count, count) <= alpha(variables):
            return count
    return ANALYSES[-1]


def screen(variables: float) -> float:
    """p-value from which one of so many variables is measured again."""
    return min(max(SCREENED / variables, SCREEN[0]), SCREEN[1])


def fresh_alpha(variables: float) -> float:
    """Error rate of one analysis of the fresh samples of one of so many variables."""
    return CONFIRMATION_ERROR / variables / len(CONFIRMATION_ANALYSES)


def day_error(variables: float) -> float:
    """Chance that a day's shift alone is called a change of one variable: an equal part."""
    return DAY_ERROR / variables
