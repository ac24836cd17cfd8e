"""`nearmetal gate`."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

from nearmetal.commands.common import judge_each, refuse_same, session_of, warn, write
from nearmetal.judge import confirm, history, render, rerun
from nearmetal.judge.alpha_weights import AlphaWeights
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.expected import numbers_of
from nearmetal.judge.verdict import GateReport

#: Seconds that the command of --alert may take.
PATIENCE = 60


def run(arguments) -> int:
    """Judge a session of each system, print the reports and write them in the requested formats."""
    refuse_same((arguments.json, arguments.junit, arguments.markdown, arguments.openmetrics))
    reports: list[GateReport] = []
    code = judge_each(
        arguments,
        reports,
        lambda of_one: _of_system(of_one, reports),
        lambda code: _write(arguments, reports, code),
        lambda code: _alert(arguments.alert, reports, code),
    )
    _alert(arguments.alert, reports, code)
    if arguments.confirm and not reports[0].confirmed:
        system = reports[0].session.system
        warn(
            f"{system} has no baseline to confirm changes against, so nothing was measured again. "
            f"Fix: `nearmetal baseline record --system {system}`"
        )
    return code


def _of_system(arguments, reports: list[GateReport]) -> int:
    """Judge a session of one system, add its report to the others, and print it."""
    database = arguments.database
    weights = AlphaWeights.of(arguments.only, arguments.weight)
    campaign = Campaign.of(session_of(arguments), database, weights)
    report = campaign.verdicts()
    fault: rerun.ConfirmError | None = None
    if arguments.confirm and campaign.baseline is not None:
        try:
            report = _confirmed(arguments, campaign, report)
        except rerun.ConfirmError as error:
            fault = error
    other_nodes = campaign.on_other_nodes(report)
    notes = [weights.note(campaign.baseline), *confirm.notes(other_nodes)]
    if campaign.baseline is not None:
        notes += history.sentences(campaign.moved())
    report = campaign.explained(report, other_nodes).noting(*notes, *database.notes())
    if reports:
        print()
    reports.append(report)
    print(render.table(report, arguments.all), flush=True)
    # After the table: what is known should be seen although nothing was confirmed.
    if fault:
        raise fault
    return report.exit_code


def _confirmed(arguments, campaign: Campaign, report: GateReport) -> GateReport:
    """The report after `--confirm` measured the suspicious cases again."""

    # These files stay if the command is killed before its end.
    def write_so_far(so_far: GateReport) -> None:
        _write(arguments, [so_far], so_far.exit_code)

    write_so_far(report)
    return campaign.confirm(
        arguments.reframe,
        confirm.Bounds(arguments.most, arguments.rounds, arguments.within, arguments.confirm),
        lambda line: print(line, flush=True),
        write_so_far,
    )


def _write(arguments, reports: list[GateReport], code: int) -> None:
    """The reports in the requested formats.

    :arg code: the exit code of the command.
    """
    # The command's code says more than the verdict: an error may have ended the command.
    if len(reports) == 1:
        reports = [replace(reports[0], ended=code)]
    for path, text_of in (
        (arguments.json, lambda: _document(reports, code)),
        (arguments.junit, lambda: render.junit(reports, arguments.all)),
        (arguments.markdown, lambda: _comment(reports, arguments.all)),
        (arguments.openmetrics, lambda: render.openmetrics(reports, numbers_of)),
    ):
        write(path, text_of)


def _comment(reports: list[GateReport], every: bool) -> str:
    return "\n".join(render.markdown(report, every) for report in reports)


def _document(reports: list[GateReport], code: int) -> str:
    documents = list(map(render.document, reports))
    return json.dumps(render.together(documents, code), indent=1) + "\n"


def _alert(command: list[str] | None, reports: list[GateReport], code: int) -> None:
    """Run the command of --alert with the JSON document on its stdin, unless all is clean.

    Its failure is printed, and leaves the gate's exit code as it is.
    """
    if not command or code == 0:
        return
    fault = ""
    try:
        done = subprocess.run(command, input=_document(reports, code), text=True, timeout=PATIENCE)
        if done.returncode:
            fault = f"it ended with {done.returncode}"
    except subprocess.TimeoutExpired:
        fault = f"it took more than {PATIENCE} s"
    except OSError as error:
        fault = str(error)
    if fault:
        print(
            f"nearmetal: the command of --alert failed: {fault}. Fix: run it by hand with a file "
            "of `nearmetal gate --json` on its stdin",
            file=sys.stderr,
        )
