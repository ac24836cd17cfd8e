"""`nearmetal explain`."""

import json
from dataclasses import replace

from nearmetal.commands.common import judge_each, session_of, write
from nearmetal.judge import render
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.verdict import GateReport


def run(arguments) -> int:
    """Judge a session as `nearmetal gate` does, and print what probably made it worse."""
    reports: list[GateReport] = []

    def write_documents(code: int) -> None:
        whole = render.together(list(map(render.document_of_causes, reports)), code)
        write(arguments.json, lambda: json.dumps(whole, indent=1) + "\n")

    return judge_each(
        arguments, reports, lambda of_one: _of_system(of_one, reports), write_documents
    )


def _of_system(arguments, reports: list[GateReport]) -> int:
    """Print the causes on one system, and add its report."""
    campaign = Campaign.of(session_of(arguments), arguments.database)
    report = campaign.verdicts()
    report = replace(report, causes=campaign.causes(report, campaign.on_other_nodes(report)))
    reports.append(report)
    print(f"{render.headline(report)}\n{render.subject(report)}\n")
    print(render.table_of_causes(report))
    for note in report.notes:
        print(note)
    return report.exit_code
