"""Which nodes of a partition a sweep takes, and which it leaves out with why."""

import types

import pytest
from reframe.core.exceptions import SanityError

from nearmetal.checks import all_nodes, fleet
from nearmetal.cluster import slurm

STATES = {
    "n1": "IDLE",
    "n2": "MIXED",
    "n3": "IDLE+DRAIN",
    "n4": "IDLE+RESERVED",
    "n5": "IDLE+MAINT+RESERVED",
    "n6": "DOWN*+MAINT+RESERVED",
    "n7": "IDLE",
}
NODES = slurm.nodes(
    "\n".join(f"NodeName={name} CPUTot=4 State={s} Partitions=cc" for name, s in STATES.items())
    + "\nNodeName=other CPUTot=4 State=IDLE Partitions=gpu\n"
)
CC = {"partition": "cc"}


def names(chosen) -> list[str]:
    return [node.name for node in chosen.nodes]


def test_the_options_of_a_job_name_partition_and_nodes():
    for options in (["-p cc"], ["-pcc"], ["--partition=cc"], ["--qos=x", "--partition cc"]):
        assert all_nodes.asked_for(options) == CC
    assert all_nodes.asked_for(["--qos=x"]) == all_nodes.asked_for(["-p"]) == {}
    words = ["-p cc", "-w n[1-3]", "-x n2", "-C 'fast&big'", "--reservation=night"]
    assert all_nodes.asked_for(words) == {
        "partition": "cc",
        "nodelist": "n[1-3]",
        "exclude": "n2",
        "constraint": "fast&big",
        "reservation": "night",
    }


def test_a_sweep_takes_what_jobs_can_use_and_says_why_not_the_others():
    found = all_nodes.choose(NODES, CC)
    assert names(found) == ["n1", "n2", "n7"] and found.busy == ["n2 (MIXED)"]
    assert found.left_out == (
        "n3 (IDLE+DRAIN)",
        "n4 (IDLE+RESERVED: another reservation has it)",
        "n5 (IDLE+MAINT+RESERVED)",
        "n6 (DOWN*+MAINT+RESERVED)",
    )
    assert names(all_nodes.choose(NODES, {})) == ["n1", "n2", "n7", "other"]


def test_a_reservation_for_maintenance_is_measured_but_for_its_broken_nodes():
    asked = {**CC, "reservation": "night"}
    found = all_nodes.choose(NODES, asked, allowed={"n4", "n5", "n6"})
    assert names(found) == ["n4", "n5"]
    assert "n6 (DOWN*+MAINT+RESERVED)" in found.left_out
    assert sum("options name" in one for one in found.left_out) == 4


def test_flexible_numbers_take_the_nodes_of_a_state_or_so_many():
    found = all_nodes.choose(NODES, CC, in_state={"n1", "n7", "other"})
    assert names(found) == ["n1", "n7"] and "n2 (MIXED)" in found.left_out
    found = all_nodes.choose(NODES, CC, most=2)
    assert names(found) == ["n1", "n7"] and not found.busy
    assert "n2 (beyond --flex-alloc-nodes)" in found.left_out
    assert names(all_nodes.choose(NODES, CC, most=9)) == ["n1", "n2", "n7"]


@pytest.mark.parametrize("new", [True, False])
def test_states_are_those_of_reframe(monkeypatch, new):
    """Of 4.10 and later by the scheduler, before by a function."""

    def by_state(nodes, state):
        assert state == "idle"
        return {node for node in nodes if node.state == "IDLE"}

    scheduler = types.SimpleNamespace(
        allnodes=lambda: set(NODES), filternodes=lambda job, nodes: nodes
    )
    if new:
        scheduler.filternodes_by_state = by_state
    else:
        monkeypatch.setattr(all_nodes.schedulers, "filter_nodes_by_state", by_state, raising=False)
    job = types.SimpleNamespace(scheduler=scheduler)
    assert all_nodes.in_state(job, "IDLE") == {"n1", "n7", "other"}


class Made:
    """What a fleet check is, where it asks which nodes to take."""

    keep_what_is_asked_for = fleet.Fleet.keep_what_is_asked_for
    take_all_nodes, _take = fleet.Fleet._take_all_nodes, fleet.Fleet._take
    _too_few = fleet.Fleet._too_few
    _chosen, _state = fleet.Fleet._chosen, fleet.Fleet._state
    _refuse_other_numbers = fleet.Fleet._refuse_other_numbers
    needs_them_for = "compares nodes with each other"
    display_name, num_nodes, num_tasks_per_node, processes_on_each = "fleet_nodes", 1, 2, 2

    def __init__(self, scheduler, num_tasks=1, flex="idle", access=("-p cc",), dry=False, least=3):
        self.num_tasks, self.dry, self.skipped, self.least_nodes = num_tasks, dry, "", least
        self.keep_what_is_asked_for()
        self.job = types.SimpleNamespace(
            scheduler=scheduler,
            sched_access=list(access),
            options=[],
            cli_options=[],
            sched_flex_alloc_nodes=flex,
            pin_nodes=[],
        )
        self.current_partition = types.SimpleNamespace(fullname="here:cc")

    def is_dry_run(self):
        return self.dry

    def skip(self, why):
        self.skipped = why


class Slurm:
    """ReFrame's scheduler: `nodes` are what options of a job leave."""

    registered_name = "slurm"

    def __init__(self, *nodes):
        self.nodes = {node for node in NODES if node.name in nodes}

    def allnodes(self):
        return set(NODES)

    def filternodes(self, job, nodes):
        return nodes & self.nodes

    def filternodes_by_state(self, nodes, state):
        return {node for node in nodes if node.state.lower() == state}


@pytest.fixture
def take(monkeypatch):
    monkeypatch.setattr(fleet, "_nodes", lambda: (tuple(NODES), ""))
    monkeypatch.setattr(fleet, "known_switches", dict)

    def take(*arguments, **how) -> Made:
        made = Made(*arguments, **how)
        made.take_all_nodes()
        return made

    return take


EVERY = Slurm(*STATES)


def test_a_check_takes_all_nodes_and_the_job_may_choose(take):
    made = take(EVERY)
    assert (made.num_nodes, made.num_tasks, made.job.pin_nodes) == (3, 6, []) and not made.skipped
    assert len(made._left_out) == 4
    made.take_all_nodes()  # as of a second environment
    assert made.num_nodes == 3


def test_flexible_num_tasks_takes_the_idle_nodes_and_no_other(take):
    made = take(EVERY, num_tasks=0)
    assert made.skipped.endswith("has 2 in the state of --flex-alloc-nodes, idle")
    assert "n2 (MIXED)" in made._left_out
    made = take(EVERY, num_tasks=0, least=2)
    assert made.job.pin_nodes == ["n1", "n7"] and made.num_tasks == 4 and not made.skipped
    made = take(EVERY, num_tasks=-4, flex=3)
    assert made.job.pin_nodes == ["n1", "n2", "n7"] and made.num_tasks == 6 and not made.skipped
    made = take(EVERY, num_tasks=-8, flex=3)
    assert "needs 4 (num_tasks), but here:cc has 3" in made.skipped
    made = take(EVERY, num_tasks=-8, dry=True)
    assert (made.num_nodes, made.num_tasks) == (4, 8)


def test_a_reservation_or_a_list_of_nodes_narrows_the_sweep(take):
    made = take(Slurm("n4", "n5", "n1"), access=["-p cc", "--reservation=night"])
    assert made.num_nodes == 3 and "n7 (not among" in " ".join(made._left_out)
    made = take(Slurm("n1"), access=["-p cc", "-w n1"])
    assert "needs 3, but here:cc has 1" in made.skipped


@pytest.mark.parametrize(
    "how, says",
    [
        ({"num_tasks": 8}, "num_tasks is 8, .* --flex-alloc-nodes=NUMBER takes some"),
        ({"num_tasks": None}, "num_tasks is None"),
        ({"access": ["-p cc,gpu"]}, "a job runs in one of them"),
        ({"num_tasks": 0, "access": ["-p cc", "-w n1"]}, "the job's options name nodes already"),
    ],
)
def test_what_a_sweep_cannot_follow_is_refused(take, how, says):
    with pytest.raises(SanityError, match=says):
        take(EVERY, **how)


def test_a_scheduler_that_cannot_list_its_nodes_is_refused(take):
    def unknown(*_):
        raise NotImplementedError

    pbs = types.SimpleNamespace(registered_name="pbs", allnodes=unknown, filternodes=unknown)
    with pytest.raises(SanityError, match="cannot list the nodes of pbs"):
        take(pbs, num_tasks=0)
    assert take(pbs).num_nodes == 3


def test_distribute_is_refused_with_what_to_do_instead(take):
    made = Made(EVERY)
    setattr(made, ".nid", ["n1"])
    made.skip = pytest.fail
    with pytest.raises(pytest.fail.Exception, match="--distribute gives each job one node"):
        made.take_all_nodes()


@pytest.mark.parametrize("how", [{"processes": 3}, {"processes": 0}])
def test_another_number_of_processes_a_node_is_refused(take, how):
    made = Made(EVERY)
    made.num_tasks_per_node = how["processes"]
    with pytest.raises(SanityError, match="but fleet_nodes has 2 on each node"):
        made.take_all_nodes()


class Timed:
    """What a fleet check is, where it asks for time."""

    allow_time_for = fleet.Fleet.allow_time_for
    repeats, spare_repeats = 3, 2

    def __init__(self, time_limit: float, most: float = 1e9):
        self.time_limit, self.most = time_limit, most

    def keep_to_the_partitions_limits(self):
        self.time_limit = min(self.time_limit, self.most)


@pytest.mark.parametrize(
    "seconds, limit, most, asked",
    [
        (60, 1800.0, 1e9, 1800),  # the default suffices
        (600, 1800.0, 1e9, 300 + 5 * 620),  # longer repeats get a longer job
        (600, 1800.0, 2000, 2000),  # as long as the partition allows
        (60, 600.0, 1e9, 600),  # the command line's stays
        (600, 600.0, 1e9, None),
        (600, 1800.0, 1700, None),
    ],
)
def test_a_job_is_as_long_as_its_repeats_or_is_refused(seconds, limit, most, asked):
    timed = Timed(limit, most)
    if asked is None:
        with pytest.raises(SanityError, match="3 repeats of 600 s are longer than the job"):
            timed.allow_time_for(seconds)
    else:
        timed.allow_time_for(seconds)
        assert timed.time_limit == asked
