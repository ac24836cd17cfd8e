"""`nearmetal duet`."""

from nearmetal.commands.common import print_missing, refuse_older
from nearmetal.compare import published
from nearmetal.judge import duet


def run(arguments) -> int:
    session = duet.load(arguments.database, arguments.system, arguments.session)
    refuse_older(session, arguments)
    report = duet.judge_session(session)
    print(duet.render(report, published.load()))
    if arguments.sizes:
        print(f"\n{duet.sizes(session)}")
    print_missing(report.missing)
    return report.exit_code
