"""The cases that `nearmetal gate --confirm` measures again, by the variable `again` of a check."""

from reframe.core.exceptions import SanityError, SkipTestError

from nearmetal.cluster import slurm
from nearmetal.model import naming, remeasure


def measure_again(check) -> None:
    """Give a check the repeats and nodes that `again` names, or skip it. Nothing if it is empty."""
    if not check.again:
        return
    name = naming.parse(check.display_name)
    place = check.current_partition.name, check.current_environ.name, name.node
    try:
        case = remeasure.read(check.again).get((name.plain, *place))
    except ValueError as error:
        raise SanityError(f"again: {error}. `nearmetal gate --confirm` writes it") from None
    if case is None:
        raise SkipTestError("it is not measured again")
    check.repeats = case.repeats
    if not by_slurm(check):
        return
    if case.nodes:
        check.job.options.append(f"--nodelist={','.join(case.nodes)}")
    if case.without:
        check.job.options.append(f"--exclude={','.join(case.without)}")


def by_slurm(check) -> bool:
    """Whether Slurm runs the job, with or without accounting."""
    return check.job.scheduler.registered_name in slurm.SCHEDULERS
