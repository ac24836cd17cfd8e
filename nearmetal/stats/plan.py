"""The plan of the sequential tests: error rates, interim analyses, detectable changes."""

#: Chance that an unchanged campaign raises any alarm: a variable called `regressed`.
CAMPAIGN_ERROR = 0.05
#: Chance that fresh samples of an unchanged variable confirm a false alarm.
CONFIRMATION_ERROR = 0.01
#: Chance that a day's shift alone passes for a regression, where days differ.
DAY_ERROR = 0.001
#: Interim analyses: numbers of samples at which a verdict is sought. After the last, none is.
ANALYSES = (5, 7, 10, 14, 20, 32, 50, 75)
#: Numbers of fresh samples that may confirm a changed verdict. Its alpha is larger: three can do.
CONFIRMATION_ANALYSES = (3, *ANALYSES)
#: Change below which nothing is reported, however significant.
THRESHOLD = 0.02
#: Bounds of the minimum detectable change. In noise beyond the second, nothing is judged.
DETECTABLE = (0.05, 1.0)
#: Power at the minimum detectable change.
POWER = 0.95
#: Standard errors by which the estimate of an `ok` stays below the minimum detectable change.
MARGIN = 3.0
#: Fewer baseline samples cannot give a p-value as small as the alpha of one analysis.
LEAST_BASELINE = 20
#: Sessions of a baseline, unless they are named: `make bench-gate` measures the error rates of
#: these.
BASELINE_SESSIONS = 12


def alpha(variables: int) -> float:
    """Error rate of one analysis of one variable: equal parts of the campaign's (Bonferroni)."""
    return CAMPAIGN_ERROR / variables / len(ANALYSES)
