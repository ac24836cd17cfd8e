"""Every check on every system that comes with Nearmetal, dry: each case is there, or skipped with
its reason."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from tests.support.lab import fresh_prefix
from tests.support.paths import CHECKOUT

#: What there is in C and in Java.
BOTH = [
    ("pingpong %placement=internode", True),
    ("pingpong %placement=intranode", False),
    ("collectives", False),
    *((f"npb %benchmark={benchmark}", False) for benchmark in ("cg", "ep", "ft", "is", "mg")),
]
#: Features of an environment (environments.yaml) -> cases that it gives: (check, whether it needs
#: two nodes).
CASES = {
    "mpi": [*BOTH, ("launch", False), ("affinity", False), ("multi_pair", True)],
    "mpj": BOTH,
    "slepc": [("eigen", False)],
    "npb": [(f"npb %benchmark={benchmark}", False) for benchmark in ("bt", "lu", "sp")],
    "npb_mz": [
        (f"npb_mz %benchmark={benchmark} %threads_are={binding}", False)
        for benchmark in ("bt-mz", "sp-mz")
        for binding in ("bound", "unbound")
    ],
    "vswitch": [("vswitch", False), ("pingpong %placement=guests", True)],
    "lammps": [("lammps", False)],
    "nwchem": [("nwchem", False)],
    "gromacs": [("gromacs", False)],
    "hpcg": [("hpcg", False)],
    "hpcc": [("hpcc %page_size=small", False), ("hpcc %page_size=large", False)],
    "serial": [("tcp", True), ("osnoise", False)],
    "openmp": [
        ("stream_numa", False),
        ("stream %binding=bound", False),
        ("stream %binding=unbound", False),
    ],
}
#: What serial environments have besides where user space reaches the NIC (`rdma: true`).
RDMA_CASES = [(f"rdma %operation={operation}", True) for operation in ("read", "write", "send")]
SITE_CONFIG = CHECKOUT / "site-config"
FEATURES = {
    env["name"]: env["features"]
    for env in yaml.safe_load((SITE_CONFIG / "environments.yaml").read_text())
}
#: Programs of images are started as others are, so that `affinity` leaves them out.
IMAGES = {
    env["name"]
    for env in yaml.safe_load((SITE_CONFIG / "environments.yaml").read_text())
    if "image" in env.get("extras", {})
}
SYSTEMS = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((SITE_CONFIG / "systems").iterdir())
}
#: The lab's virtual machines, which are not always there.
VIRTUAL = {
    **SYSTEMS["lab"],
    "partitions": [
        p
        for p in SYSTEMS["lab"]["partitions"]
        if p.get("only_with") == {"NEARMETAL_LAB_VM": "virtio"}
    ],
}
#: The four guests of `guests`, which are not always there.
GUESTS = {"NEARMETAL_LAB_GUESTS": "4", "NEARMETAL_LAB_SWITCHES": "2"}
LAST = {
    **SYSTEMS["guests"],
    "partitions": [p for p in SYSTEMS["guests"]["partitions"] if p["name"] == "vm-vswitches"],
}
for system in SYSTEMS.values():
    system["partitions"] = [p for p in system["partitions"] if "only_with" not in p]


def expected(system: dict) -> dict[str, bool]:
    """`CHECK @SYSTEM:PARTITION+ENVIRONMENT` -> whether it runs there."""
    own = {env["name"]: env.get("features") for env in system.get("environments", [])}
    features = FEATURES | {name: given for name, given in own.items() if given is not None}
    cases = {
        f"{check} @{system['name']}:{partition['name']}+{environ}": (
            not needs_two or partition["extras"].get("nodes", 2) >= 2
        )
        and not {"fastmpj", "spack"} & {*features[environ]}
        and environ not in IMAGES
        for partition in system["partitions"]
        for environ in partition["environs"]
        for feature in features[environ]
        # Without MPI for all checks, `vswitch` alone runs applications, where it is asked to.
        if not (feature in ("lammps", "gromacs") and "mpi" not in features[environ])
        for check, needs_two in [
            *CASES.get(feature, []),
            *(RDMA_CASES if feature == "serial" and partition["extras"].get("rdma") else []),
        ]
        if not (check == "affinity" and environ in IMAGES)
    }
    # No system that comes along has NAMD: one case says so, on the first environment that it could
    # be in.
    first = system["partitions"][0]
    with_mpi = [environ for environ in first["environs"] if "mpi" in features[environ]][:1]
    return cases | {
        f"namd @{system['name']}:{first['name']}+{environ}": False for environ in with_mpi
    }


@pytest.fixture(scope="module")
def dry_runs(lab, request):
    """Dry runs of the systems of the chosen tests, two at a time."""

    def dry_run(name: str):
        environ = {"lab:vm": {"NEARMETAL_LAB_VM": "virtio"}, "guests:vm-vswitches": GUESTS}
        return lab.reframe(
            *("--dry-run", "--system", name),
            prefix=fresh_prefix(lab, f"dry_run_{name}"),
            NEARMETAL_SYSTEMS_PATH="",  # not the lab's own ec2
            NEARMETAL_IMAGES="/nonexistent/images",
            **environ.get(name, {}),
        )

    items = [item for item in request.session.items if item.path == request.path]
    names = [item.callspec.params["name"] for item in items if hasattr(item, "callspec")]
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(dry_run, name) for name in names}


#: The system of the fewest cases that has every kind of check, which `make test` lists as well.
SHORT = "vmware-esx41"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == SHORT else pytest.mark.whole)
        for name in (*SYSTEMS, "lab:vm", "guests:vm-vswitches")
    ],
)
def test_every_case_is_there_or_skipped_with_its_reason(dry_runs, name):
    done = dry_runs[name].result()
    assert done.returncode == 0, done.stdout
    ends = {
        re.sub(r" /[0-9a-f]{8}", "", case): (end, reason)
        for end, case, reason in re.findall(
            r"^\[ +(OK|SKIP|FAIL) \] \([ 0-9/]+\) (\S.*? @\S+)(?: \[(.*)\])?$", done.stdout, re.M
        )
    }
    wanted = expected((SYSTEMS | {"lab:vm": VIRTUAL, "guests:vm-vswitches": LAST})[name])
    assert len(wanted) >= 2 and sorted(ends) == sorted(wanted)
    for case, (end, reason) in ends.items():
        assert end == ("OK" if wanted[case] else "SKIP"), case
        why = (
            ["has the feature namd: where the site has"]
            if case.startswith("namd")
            else [
                "needs 2 nodes, but",
                "FastMPJ is each site's own licensed copy",
                "images/openmpi.sif: make images builds it",
                "images/mpich.sif: make images builds it",
                "images/mpj-native.sif: make images builds it",
                "needs Spack, which is not on PATH of this node",
            ]
        )
        assert end == "OK" or any(words in reason for words in why), case
    assert f"Ran {sum(wanted.values())}/{len(wanted)} test case(s)" in done.stdout


def test_no_other_system_comes_with_nearmetal():
    assert sorted(SYSTEMS) == ["aist", "cag", "ec2", "guests", "lab", "vmware-esx41", "vmware-ib"]
