"""A session, what it is compared with, and what follows from both. Each is computed once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from nearmetal import results
from nearmetal.expectations.entries import ExpectationError
from nearmetal.judge import baseline as baselines
from nearmetal.judge import confirm, native_ratio, rerun, selection
from nearmetal.judge.against_baseline import (
    Fresh,
    Terms,
    date_of,
    judge_pooled,
    judge_session,
    since,
)
from nearmetal.judge.alpha_weights import AlphaWeights
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.confirm import OnOtherNodes, Remeasured, Vanished
from nearmetal.judge.days import Days, days_of
from nearmetal.judge.expected import Expectations
from nearmetal.judge.explain import rules, symptoms
from nearmetal.judge.history import ChangePoint, change_points
from nearmetal.judge.verdict import GateReport, Likely
from nearmetal.judge.without_baseline import Bounded, judge_without_baseline
from nearmetal.model import naming
from nearmetal.results import Database, Session
from nearmetal.util import files

#: Sessions among which the one to compare with is looked for, where there is no baseline.
LOOK_BACK = 20


def baseline_of(system: str) -> Baseline | None:
    """The system's baseline; None if it has none. Raises BaselineError for one that is damaged."""
    # A name that is none of a file has no baseline.
    if naming.stem(system) != system or files.is_absent(baselines.path_of(system)):
        return None
    return baselines.load(system)


@dataclass(frozen=True)
class Campaign:
    """A session with its baseline, the history that it is part of, and expectations."""

    session: Session
    baseline: Baseline | None = None
    #: None: the session stands alone
    history: Database | None = None
    expectations: Expectations = field(default_factory=Expectations)
    #: which variables are judged, and how they share the error
    weights: AlphaWeights = field(default_factory=AlphaWeights)

    @classmethod
    def of(
        cls, session: Session, history: Database, weights: AlphaWeights | None = None
    ) -> Campaign:
        """The campaign of a stored session, with what its system has. Raises BaselineError.

        :raises WeightsError: a pattern of `weights` matches no variable.
        """
        weights = weights or AlphaWeights()
        baseline = baseline_of(session.system)
        session = weights.of_session(session, baseline)
        if baseline is not None:
            baseline = weights.of_baseline(baseline)
        return cls(session, baseline, history, Expectations.of(session.system), weights)

    @cached_property
    def terms(self) -> Terms:
        """What the verdicts on all variables share. Needs a baseline."""
        assert self.baseline is not None
        keys = [case.key for case in self.session.cases if case.key in self.baseline.entries]
        # With `--distribute`, a variable counts once for each node.
        weight = max(self.baseline.weight(self.baseline.entries), self.baseline.weight(keys))
        promised, note = selection.promised(self.session, self.baseline)
        dates: set[str] = set()
        # Independent days are all as far from the baseline as the next one.
        if self.days.memory:
            dates.update(map(date_of, self.since_baseline))
        between = len(dates - {date_of(self.session)})
        return Terms(self.baseline, self.days, weight, frozenset(promised), note, between)

    @cached_property
    def directed(self) -> Session:
        """The session with the baseline's directions, and with ratios to native."""
        assert self.baseline is not None
        return native_ratio.with_ratios(self.baseline.directed(self.session))

    @cached_property
    def days(self) -> Days:
        """What the baseline's days say of the session's."""
        assert self.baseline is not None
        return days_of(self.baseline)

    @cached_property
    def past(self) -> list[Session]:
        """The system's sessions up to this one, oldest first."""
        if self.history is None:
            return [self.session]
        past = []
        for session in results.sessions(self.history):
            # By the order of storage: a clock may have been wrong.
            if session.system == self.session.system and session.order <= self.session.order:
                past.append(session)
        return past

    @cached_property
    def since_baseline(self) -> list[Session]:
        """The sessions after those that the baseline compares with, up to this one."""
        assert self.baseline is not None
        return since(self.baseline.anchored, self.past)

    @cached_property
    def earlier(self) -> list[Session]:
        """The sessions between the baseline and this one, as their confirmations left them."""
        # The session itself has samples of its own, and fresh ones beside them.
        between = [session for session in self.since_baseline if session.uuid != self.session.uuid]
        if self.history is None:
            return between
        return confirm.with_confirmations(between, self.history)

    @cached_property
    def session_before(self) -> Session | None:
        """Of the last sessions before this one: the newest with most of its cases."""
        if self.history is None:
            return None
        cases = {case.where for case in self.session.cases if case.measured}
        newest = results.sessions(self.history, newest_first=True)
        before = filter(lambda session: session.precedes(self.session), newest)
        nearest, most = None, 0
        for session in itertools.islice(before, LOOK_BACK):
            shared = len(cases.intersection(case.where for case in session.cases if case.counts))
            if shared > most:
                nearest, most = session, shared
            # No older one can share more.
            if most == len(cases):
                break
        return nearest

    def stored(self) -> Remeasured:
        """What the stored confirmations of the session measured. Raises ResultsError."""
        if self.history is None:
            return Remeasured()
        confirmations = results.confirmations(self.history, self.session)
        return Remeasured.of(self.session, confirmations)

    def judge_alone(self, fresh: Fresh) -> GateReport:
        """The report against the baseline, by this session alone."""
        return judge_session(self.directed, self.terms, fresh)

    def judge_against_baseline(self, fresh: Fresh) -> GateReport:
        """The report against the baseline.

        What the session alone leaves undecided is judged by all sessions since the baseline.

        :arg fresh: samples of its confirmations.
        """
        report = self.judge_alone(fresh)
        return judge_pooled(report, self.terms, self.earlier, fresh)

    def verdicts(self, fresh: Fresh | None = None) -> GateReport:
        """The report against baseline or session before, and expectations.

        :arg fresh: samples of its confirmations; default: those in the database.
        """
        if self.baseline is not None:
            if fresh is None:
                fresh = self.stored().samples
            return self.expectations.apply(self.judge_against_baseline(fresh))
        expectations, bounded = self.expectations, Bounded()
        try:
            bounded = expectations.bounded(self.session)
        except ExpectationError as error:
            expectations = Expectations(broken=str(error))
        before, earlier = self.session_before, None
        if before:
            earlier = replace(self, session=before).session_before
        report = judge_without_baseline(self.session, before, bounded, earlier)
        return expectations.apply(report)

    def confirm(
        self,
        reframe: list[str] | None,
        bounds: confirm.Bounds,
        say: Callable[[str], None],
        after_round: Callable[[GateReport], None],
    ) -> GateReport:
        """The report after suspicious cases were measured again. Needs a baseline.

        :arg reframe: the command that starts ReFrame; None: the one of the session's host.
        :raises ConfirmError: nothing was measured again.
        """
        assert self.history is not None
        reframe = reframe or rerun.reframe_of(self.session, self.history)
        clock = confirm.Clock(bounds.within)
        # Without expectations: what deviates may have regressed, too, and is measured again.
        report = confirm.measure_again(
            self.judge_against_baseline,
            self.stored().samples,
            self.history,
            reframe,
            bounds,
            say,
            lambda so_far: after_round(self.expectations.apply(so_far)),
        )
        nodes = self.expectations.nodes
        confirm.measure_on_other_nodes(report, self.history, reframe, nodes, say, clock.left)
        return self.expectations.apply(report)

    def vanished(self, confirmations: list[Session]) -> list[Vanished]:
        """Changes of the session that its stored confirmations did not show."""
        remeasured = Remeasured.of(self.session, confirmations)
        changed = []
        for verdict in self.judge_against_baseline({}).verdicts:
            if verdict.shows_change and verdict.where in remeasured.repeats:
                changed.append(verdict)
        # Judging once more takes as long as a gate.
        if not changed:
            return []
        report = self.judge_against_baseline(remeasured.samples)
        return confirm.vanished(report, changed, remeasured)

    def on_other_nodes(self, report: GateReport) -> list[OnOtherNodes]:
        """What other nodes showed of each regressed variable that they measured."""
        if self.baseline is None or self.history is None:
            return []
        cases = confirm.measured_on_other_nodes(self.session, self.history)
        # The drifts take time.
        if not cases:
            return []
        return confirm.on_other_nodes(report, cases, self.baseline, self.days.drifts)

    def moved(self) -> list[ChangePoint]:
        """Change points of the judged variables after the baseline's sessions, and creeps."""
        later = {session.uuid for session in self.since_baseline}
        judged = self.session.by_where
        points = []
        for point in change_points(self.past):
            where = point.check, point.partition, point.environ
            # A creep may have begun before the baseline's last session.
            is_new = point.session in later or (point.creeps and where in judged)
            if is_new and self.weights.selects(point.check, point.variable):
                points.append(point)
        return points

    def causes(self, report: GateReport, other_nodes: list[OnOtherNodes]) -> tuple[Likely, ...]:
        """The likely causes of what got worse. Raises RulesError.

        :arg other_nodes: what these showed of the report's regressed variables.
        """
        if not any(map(symptoms.calls, report.verdicts)):
            return ()
        known = rules.load()
        earlier: Iterable[Session] = ()
        if self.history is not None:
            past = results.sessions(self.history)
            earlier = filter(lambda session: session.precedes(self.session), past)
        # Facts, evidence and curves of a healthy state.
        then = symptoms.before(self.session, self.baseline, earlier)
        shown = confirm.signs(other_nodes)
        observed = symptoms.observe(report, then, known.evidence, shown)
        return rules.likely_causes(observed, known)

    def explained(self, report: GateReport, other_nodes: list[OnOtherNodes]) -> GateReport:
        """The report with its likely causes; if the rules cannot be read, with a note on it."""
        try:
            return replace(report, causes=self.causes(report, other_nodes))
        except rules.RulesError as error:
            return report.noting(f"not explained: {error}")
