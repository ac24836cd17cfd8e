"""The gate's report on a session by itself, for tests of its verdicts."""

from nearmetal.judge.against_baseline import Fresh
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.days import Days, Drifts
from nearmetal.judge.days import drifts as drifts_of
from nearmetal.judge.verdict import GateReport
from nearmetal.results import Session

__all__ = ["drifts_of", "judge_pooled", "judge_session"]


def judge_session(session: Session, known: Baseline, fresh: Fresh | None = None) -> GateReport:
    """The report against a baseline, without earlier sessions and expectations."""
    return Campaign(session, known).judge_alone(fresh or {})


def judge_pooled(
    session: Session, known: Baseline, earlier: list[Session], drifts: Drifts | None = None
) -> GateReport:
    """The report by all sessions since a baseline."""
    campaign = Campaign(session, known)
    # What is computed once can be given instead.
    vars(campaign)["earlier"] = earlier
    if drifts is not None:
        vars(campaign)["days"] = Days(drifts, dict.fromkeys(drifts, 0.0))
    return campaign.judge_against_baseline({})
