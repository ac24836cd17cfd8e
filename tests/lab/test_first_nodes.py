"""Steps of real jobs on fewer nodes than the job has."""

import re

from tests.support.paths import SOURCES

JOB = """#!/bin/sh
#SBATCH -p native -N2 --exclusive --qos=pair
#SBATCH hetjob
#SBATCH -p emulated -N2 --exclusive --qos=pair
set -e
for group in 0 1; do
    nodes_1=$(sh {script} 1 $group)
    for i in 1 2 3; do
        srun --mpi=none --het-group=$group --nodes=1 --ntasks=1 --nodelist=$nodes_1 hostname
    done
done
nodes_1=$(sh {script} 1)
srun --mpi=none --nodes=1 --ntasks=1 --nodelist=$nodes_1 hostname
sh {script} 3 || echo "status $?"
"""


def test_steps_of_real_jobs_stay_on_the_first_node_of_their_component(lab, prefix):
    script = prefix / "job.sh"
    first_nodes = SOURCES / "first_nodes.sh"
    script.write_text(JOB.format(script=first_nodes))
    lab("exec", f"sbatch --wait -o {prefix}/job.out {script}", check=False, timeout=300)
    said = (prefix / "job.out").read_text()
    names = re.findall(r"^(?:native|emulated)\d$", said, re.MULTILINE)
    assert names == ["native1"] * 3 + ["emulated1"] * 3 + ["native1"], said
    assert "has 2 nodes" in said and "status 2" in said
