"""`nearmetal init`: the file of a cluster, on clusters of texts."""

import io
import os
import re
import shutil

import pytest
import yaml

from nearmetal import cli
from nearmetal.cluster import modules
from nearmetal.cluster.ask import Asker
from nearmetal.cluster.cluster import Cluster, Inspected
from nearmetal.cluster.modules import Available
from nearmetal.cluster.slurm import Partition
from nearmetal.init import describe, inspect, lines
from nearmetal.init.environments import environments_of
from nearmetal.site import system as site
from nearmetal.site.system import System, read_environments
from tests.support.clusters import SITES, stage
from tests.support.clusters import text as site_text
from tests.support.paths import CHECKOUT
from tests.support.said import lacking

COMMON = read_environments(CHECKOUT / "site-config" / "environments.yaml")


@pytest.fixture
def init(tmp_path, monkeypatch, capsys):
    """Runs the command on a site: (exit code, output, errors)."""

    def run(site, *words, lmod=False, stdin=""):
        if not (tmp_path / "bin").exists():
            run.stage = stage(site, tmp_path, monkeypatch, lmod)
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        words = ["init", *words, "--directory", str(tmp_path / "systems")]
        monkeypatch.setattr("sys.argv", ["nearmetal", *words])
        code = cli.main()
        return (code, *capsys.readouterr())

    run.directory = tmp_path / "systems"
    return run


def a_site(tmp_path, monkeypatch, **texts):
    """The site `guests` with other texts, on PATH."""
    staged = stage("guests", tmp_path, monkeypatch)
    shutil.copytree(CHECKOUT / "tests/support/clusters/guests", tmp_path / "site")
    for name, text in texts.items():
        (tmp_path / "site" / f"{name}.txt").write_text(text)
    monkeypatch.setenv("CLUSTER", str(tmp_path / "site"))
    return staged


def written(init, name: str) -> dict:
    return dict(System.read(init.directory / f"{name}.yaml", COMMON).document)


def test_infiniband_with_a_hierarchy_and_without_accounting(init):
    code, _, err = init("infiniband", "--yes", lmod=True)
    assert code == 0 and "gone is left out" in err and "closed is left out" in err
    system = written(init, "hpc-example")
    assert system["modules_system"] == "lmod"
    [openmpi] = system["environments"]
    assert openmpi["modules"] == ["gcc/12.2.0", "openmpi/5.0.3"]
    batch, debug, fat = system["partitions"]
    assert batch["scheduler"] == "squeue" and batch["access"] == ["-p batch"]
    assert batch["environs"] == ["openmpi", "gnu"]
    assert batch["container_platforms"] == [{"type": "Apptainer", "modules": ["apptainer/1.2.5"]}]
    extras = batch["extras"]
    assert (extras["link_class"], extras["link_type"]) == ("native", "infiniband")
    assert (extras["link_speed_gbps"], extras["rdma"], extras["hypervisor"]) == (100, True, "none")
    assert (extras["nodes"], extras["cores_per_node"], extras["memory_gb"]) == (4, 64, 270)
    assert extras["max_time_limit"] == "2d" and debug["extras"]["max_time_limit"] == "30m"
    assert "max_time_limit" not in fat["extras"] and fat["extras"]["cores_per_node"] == 64


def test_partitions_of_the_same_nodes_share_one_job(init):
    init("infiniband", "--yes", "--access=--account=me", lmod=True)
    jobs = init.stage.submitted()
    assert len(jobs) == 2
    assert "--partition=batch" in jobs[0] and "--account=me" in jobs[0] and "--nodes=1" in jobs[0]
    assert written(init, "hpc-example")["partitions"][1]["access"] == [
        "-p debug",
        "--account=me",
    ]


def test_guests_with_accounting_and_one_type_of_mpi(init):
    code, _, err = init("guests", "--yes")
    assert code == 0 and "private is left out" in err and "physics, chem" in err
    system = written(init, "guests")
    assert system["modules_system"] == "envmod"
    by_name = {one["name"]: one for one in system["environments"]}
    assert by_name["openmpi"]["modules"] == ["mpi/openmpi-x86_64"]
    assert by_name["openmpi"]["env_vars"] == [["SLURM_MPI_TYPE", "pmi2"]]
    assert "env_vars" not in by_name["mpich"]
    [main] = system["partitions"]
    assert main["scheduler"] == "slurm"
    assert main["container_platforms"] == [{"type": "Apptainer"}]
    extras = main["extras"]
    assert (extras["link_class"], extras["hypervisor"]) == ("sriov", "kvm")
    assert extras["guest_memory_gb"] == 33 and "memory_gb" not in extras


def test_users_who_may_not_see_nodes_get_them_from_sinfo(init):
    code, _, err = init("cloud", "mine", "--yes", "--partition=queue1")
    assert code == 2 and "scontrol --oneliner show node" in err
    [queue] = written(init, "mine")["partitions"]
    extras = queue["extras"]
    assert (extras["link_type"], extras["link_speed_gbps"]) == ("efa", "unknown")
    assert (extras["instance_type"], extras["hypervisor"]) == ("hpc6a.48xlarge", "nitro")
    text = (init.directory / "mine.yaml").read_text()
    assert re.search(r"link_speed_gbps: unknown  # guessed: .*EFA", text)
    assert "scontrol --oneliner show node" in text  # what could not be read


def test_the_head_lists_the_modules_that_are_there(init):
    init("infiniband", "--yes", lmod=True)
    head = (init.directory / "hpc-example.yaml").read_text().partition("\nname:")[0]
    for words in ("openmpi: openmpi/5.0.3, openmpi/4.1.5", "gcc: gcc/12.2.0", "java: openjdk/17"):
        assert f"# - {words}" in head


def a_cluster(**changes) -> Cluster:
    return Cluster("login", [], [], "scontrol show node", **changes)


def test_gcc_of_a_module_where_the_node_has_none():
    cluster = a_cluster(software={"gcc": [Available("GCC/12.3.0")]})
    somewhere = Inspected("n1", {"command.gcc": "none"}, "srun")
    [gnu] = environments_of(cluster, COMMON, somewhere)
    assert (gnu.name, gnu.differs["modules"][0]) == ("gnu", ["GCC/12.3.0"])
    somewhere = Inspected("n1", {"command.gcc": "/usr/bin/gcc"}, "srun")
    [gnu] = environments_of(cluster, COMMON, somewhere)
    assert not gnu.differs
    assert environments_of(a_cluster(), COMMON, None)[0].guess
    none = Inspected("n1", {"command.gcc": "none"}, "srun")
    assert environments_of(a_cluster(), COMMON, none) == []


def test_java_of_a_module_is_loaded_before_its_message_passing():
    software = {"mpj": [Available("mpj")], "java": [Available("Java/17")]}
    cluster = a_cluster(software=software, loads={"mpj": ["mpj"], "java": ["Java/17"]})
    somewhere = Inspected("n1", {"command.gcc": "none", "command.java": "none"}, "srun")
    [mpj] = environments_of(cluster, COMMON, somewhere)
    assert mpj.differs["modules"][0] == ["Java/17", "mpj"]


def environments(*, types=("pmix", "pmi2"), facts=None, **software):
    """Name -> environment of a cluster with these modules, on a node with these facts."""
    software = {
        kind: [Available(name) for name in names] for kind, names in software.items() if names
    }
    loads = {kind: [modules[0].name] for kind, modules in software.items()}
    cluster = a_cluster(software=software, loads=loads, mpi_types=[*types])
    somewhere = Inspected("n1", {"command.gcc": "none", **(facts or {})}, "srun")
    found = environments_of(cluster, COMMON, somewhere)
    return {one.name: one for one in found}


PATH_JDK = {"command.java": "/usr/bin/java", "command.javac": "/usr/bin/javac"}


def test_mpj_native_is_guessed_where_nodes_have_a_jdk_and_an_mpi_library():
    facts = {**PATH_JDK, "java_version": "25.0.1"}
    found = environments(facts=facts, openmpi=["openmpi/5.0.3"], mpich=["mpich"], mpj=["mpj"])
    assert list(found) == ["openmpi", "mpich", "mpj-native", "mpj"]
    native = found["mpj-native"]
    assert native.differs == found["openmpi"].differs
    assert not lacking(native.origin, "java 25.0.1", "srun", "module -t avail")


def test_mpj_native_is_as_the_environment_in_c():
    facts = {**PATH_JDK, "java_version": "22"}
    found = environments(facts=facts, types=("pmi2",), openmpi=["openmpi/4.1.6"])
    assert found["mpj-native"].differs["env_vars"] == found["openmpi"].differs["env_vars"]
    assert list(environments(facts=facts, mpich=["mpich/4.2"])) == ["mpich", "mpj-native-mpich"]
    # Without a type of srun that starts the library, no JVM would find the others.
    assert "mpj-native" not in environments(facts=facts, types=("pmi2",), openmpi=["openmpi/5.0.3"])


def test_a_module_of_a_new_enough_jdk_is_loaded_before_the_mpi_library():
    old = {**PATH_JDK, "java_version": "17.0.9"}
    found = environments(facts=old, openmpi=["openmpi/5.0.3"], java=["Java/17", "Java/25.0.1"])
    modules, origin, _ = found["mpj-native"].differs["modules"]
    assert modules == ["Java/25.0.1", "openmpi/5.0.3"] and "Java/25.0.1" in origin


@pytest.mark.parametrize(
    ("facts", "java"),
    [
        ({**PATH_JDK, "java_version": "21.0.3"}, ["Java/17", "java/1.8.0_292"]),
        ({"command.java": "/usr/bin/java", "command.javac": "none", "java_version": "25"}, []),
        ({}, []),
        ({}, ["java"]),
    ],
)
def test_mpj_native_is_not_guessed_without_its_jdk(facts, java):
    assert list(environments(facts=facts, openmpi=["openmpi/5.0.3"], java=java)) == ["openmpi"]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *(("Java/21.0.2", 21), ("openjdk@25.0.1_8", 25), ("java/1.8.0_292", 8)),
        *(("jdk-22", 22), ("25", 25), ("17.0.9", 17), ("openjdk/17.0.8-gcc-13", 17)),
        *(("java", None), ("unknown", None)),
    ],
)
def test_the_version_of_a_jdk(name, version):
    assert modules.jdk(name) == version


@pytest.mark.parametrize(
    ("module", "types", "launcher"),
    [
        ("openmpi/4.1.6", "none pmi2 pmix", "srun"),
        ("openmpi/4.1.6", "none pmi2", "srun"),
        ("openmpi/5.0.3", "none pmi2", "mpirun"),
        ("openmpi@5.0.3", "none pmi2 pmix", "srun"),
        ("openmpi/gcc/5.0.3", "none pmi2", "mpirun"),
        ("openmpi/gcc/64/4.1.5", "none pmi2", "srun"),
        ("OpenMPI/4.1.5-GCC-12.3.0", "none", "mpirun"),
        ("mpich/4.2", "none", "mpirun"),
        ("intelmpi/2021.19", "none", "mpirun-intelmpi"),
        ("intelmpi/2021.19", "none pmi2", "srun"),
        ("cray-mpich/8.1.29", "none cray_shasta", "srun"),
        ("gcc/12.2.0", "none", "srun"),
        ("mpich/4.2", "", "srun"),
    ],
)
def test_mpirun_is_guessed_where_srun_cannot_start_the_library(
    init, tmp_path, monkeypatch, module, types, launcher
):
    listed = "".join(f"srun: {name}\n" for name in types.split())
    srun_mpi = f"srun: MPI types are...\n{listed}"
    a_site(tmp_path, monkeypatch, module_avail=f"{module}\n", srun_mpi=srun_mpi)
    assert init("guests", "mine", "--yes")[0] == 0
    [partition] = written(init, "mine")["partitions"]
    assert partition["launcher"] == launcher
    [line] = re.findall(r"launcher: .*", (init.directory / "mine.yaml").read_text())
    named = "srun has no type that starts " + module.lower().replace("-", "/").split("/")[0]
    assert ("guessed" in line) == (launcher != "srun" or not types)
    assert (named in line) == (launcher != "srun")


def test_cray_mpich_has_crays_wrappers_and_pmi():
    cluster = a_cluster(
        software={"mpich": [Available("cray-mpich/8.1.29")]},
        mpi_types=["none", "cray_shasta", "pmi2"],
    )
    mpich = environments_of(cluster, COMMON, None)[0]
    differs = {key: value for key, (value, _, _) in mpich.differs.items()}
    assert differs["modules"] == ["cray-mpich/8.1.29"] and differs["cc"] == "cc"
    assert differs["env_vars"] == [["SLURM_MPI_TYPE", "cray_shasta"]]


def test_a_library_on_path_needs_no_module():
    facts = {"command.ompi_info": "/usr/bin/ompi_info", "command.gcc": "/usr/bin/gcc"}
    openmpi, _ = environments_of(a_cluster(), COMMON, Inspected("n1", facts, "srun"))
    assert (openmpi.name, openmpi.differs["modules"][0]) == ("openmpi", [])


@pytest.mark.parametrize("site", SITES)
def test_each_line_has_its_origin(init, site):
    init(site, "mine", "--yes", lmod=site == "infiniband")
    for line in (init.directory / "mine.yaml").read_text().splitlines():
        _, mark, origin = line.partition("#")
        assert mark and origin.strip(), line


def test_an_earlier_system_of_this_host_is_named(init, monkeypatch):
    assert "ReFrame takes" not in init("guests", "zone", "--yes")[2]
    (init.directory / "any.yaml").write_text("{name: first, hostnames: ['*.bad', '.*']}")
    monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(init.directory))
    assert "ReFrame takes the system first" in init("guests", "mine", "--yes")[2]


def test_a_hidden_partition_is_taken_only_by_name(init, tmp_path, monkeypatch):
    partitions = site_text("guests", "scontrol_partition")
    nodes = site_text("guests", "scontrol_node").replace("Partitions=main", "Partitions=main,own")
    hidden = "PartitionName=own AllowAccounts=ALL Hidden=YES MaxNodes=1 MaxTime=1:00:00 State=UP\n"
    every = f"{partitions.rstrip()}\n{hidden}"
    a_site(tmp_path, monkeypatch, scontrol_all_partition=every, scontrol_node=nodes)
    code, _, err = init("guests", "--yes")
    assert code == 0 and "own is left out: it is hidden" in err and "--partition=own" in err
    assert init("guests", "mine", "--yes", "--partition=own")[0] == 0
    [partition] = written(init, "mine")["partitions"]
    # A job there has one node, however many the partition has.
    assert (partition["name"], partition["extras"]["nodes"]) == ("own", 1)


def with_partition(fields: str) -> dict[str, str]:
    """Texts of the site `guests` whose partition `private` has other fields, and its nodes."""
    main, private = site_text("guests", "scontrol_partition").splitlines()
    private = private.replace("AllowAccounts=physics,chem", "AllowAccounts=ALL")
    for field in fields.split():
        key = field.partition("=")[0]
        private = re.sub(rf" {key}=\S*", "", private) + f" {field}"
    nodes = site_text("guests", "scontrol_node").replace(
        "Partitions=main", "Partitions=main,private"
    )
    return {"scontrol_partition": f"{main}\n{private}\n", "scontrol_node": nodes}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("AllowAccounts=physics,chem", "physics, chem may"),
        ("AllowAccounts=ALL DenyAccounts=biology", "biology may not"),
        ("AllowQos=urgent", "none of your QOS may use it (urgent may). Fix: --access=--qos=NAME"),
        ("DenyQos=normal,long", "none of your QOS may use it (normal, long may not)"),
        ("ReqResv=YES", "--access=--reservation=NAME"),
        ("RootOnly=YES", "only root may use it"),
        ("AllocNodes=else[1-2]", "only from else1, else2"),
        ("State=INACTIVE", "its state is INACTIVE"),
    ],
)
def test_a_partition_that_the_user_may_not_use_is_left_out(
    init, tmp_path, monkeypatch, fields, said
):
    texts = with_partition(fields)
    a_site(tmp_path, monkeypatch, sacctmgr_assoc="biology|normal,long|normal\n", **texts)
    code, _, err = init("guests", "--yes")
    assert code == 0 and not lacking(err, "partition private is left out", said)
    assert [one["name"] for one in written(init, "guests")["partitions"]] == ["main"]
    taken = init("guests", "mine", "--yes", "--partition=private")[0] == 0
    assert taken is ("State" not in fields)


@pytest.mark.parametrize(
    ("fields", "given", "access", "guessed"),
    [
        ("AllowAccounts=chem", [], ["--account=chem"], True),
        ("DenyAccounts=biology", [], ["--account=chem"], True),
        ("AllowAccounts=chem", ["--account=chem"], ["--account=chem"], False),
        ("AllowQos=long", [], ["--qos=long"], True),
        ("AllowQos=long,normal", [], [], False),
        ("DenyQos=long", [], [], False),
        ("DenyQos=normal", ["-q long"], ["-q long"], False),
        ("ReqResv=YES", ["--reservation=me"], ["--reservation=me"], False),
    ],
)
def test_the_option_that_lets_the_user_in_is_written(
    init, tmp_path, monkeypatch, fields, given, access, guessed
):
    associations = "biology|normal,long|normal\nchem|normal,long|normal\n"
    texts = with_partition(fields)
    site = a_site(tmp_path, monkeypatch, sacctmgr_assoc=associations, **texts)
    words = [f"--access={option}" for option in given]
    assert init("guests", "--yes", "--partition=private", *words)[0] == 0
    [partition] = written(init, "guests")["partitions"]
    assert partition["access"] == ["-p private", *access]
    [line] = re.findall(r" access: .*", (init.directory / "guests.yaml").read_text())
    assert ("guessed" in line) is guessed
    assert set(" ".join(access).split()) <= set(site.submitted()[0].split())


@pytest.mark.parametrize(
    ("of_partition", "of_node", "key", "value", "comment"),
    [
        ("", "CPUEfctv=6 CoreSpecCount=2", "cores_per_node", 6, "2 that Slurm keeps"),
        ("MaxCPUsPerNode=4", "", "cores_per_node", 4, "MaxCPUsPerNode=4"),
        ("MaxCPUsPerSocket=3", "", "cores_per_node", 3, "MaxCPUsPerSocket=3"),
        ("MinNodes=2", "", "nodes", 2, "guessed: .*at least 2 nodes"),
        ("MaxNodes=1", "", "nodes", 1, "MaxNodes"),
        ("MaxMemPerNode=20000", "", "guest_memory_gb", 21, "MaxMemPerNode=20000"),
        ("MaxMemPerCPU=2000", "", "guest_memory_gb", 17, "MaxMemPerCPU=2000"),
        ("DefMemPerCPU=2500", "", "guest_memory_gb", 21, "guessed: .*DefMemPerCPU=2500"),
        ("", "MemSpecLimit=6000", "guest_memory_gb", 26, "MemSpecLimit=6000"),
        ("", "", "guest_memory_gb", 33, "MemTotal"),
    ],
)
def test_what_a_job_can_have_is_described(
    init, tmp_path, monkeypatch, of_partition, of_node, key, value, comment
):
    texts = with_partition(of_partition)
    for field in of_node.split():
        texts["scontrol_node"] = texts["scontrol_node"].replace("CPUTot=8", f"CPUTot=8 {field}")
    site = a_site(tmp_path, monkeypatch, **texts)
    assert init("guests", "--yes", "--partition=private")[0] == 0
    assert written(init, "guests")["partitions"][0]["extras"][key] == value
    [line] = re.findall(rf" {key}: .*", (init.directory / "guests.yaml").read_text())
    assert re.search(comment, line) and ("guessed" in line) is comment.startswith("guessed")
    assert ("--nodes=2 --ntasks=2" in site.submitted()[0]) is ("MinNodes" in of_partition)


def test_a_limit_of_slurm_conf_counts_where_the_partition_has_none(init, tmp_path, monkeypatch):
    config = site_text("guests", "scontrol_config") + "MaxMemPerNode           = 20000\n"
    a_site(tmp_path, monkeypatch, scontrol_config=config)
    assert init("guests", "--yes")[0] == 0
    assert written(init, "guests")["partitions"][0]["extras"]["guest_memory_gb"] == 21


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("PartitionConfig", "PartitionConfig: the partition does not take such jobs"),
        ("Job's account not permitted to use this partition", "--access=--account=NAME"),
        ("QOSNotAllowed", "--access=--qos=NAME"),
    ],
)
def test_a_job_that_never_starts_is_given_up_at_once(init, tmp_path, monkeypatch, reason, said):
    texts = with_partition("")
    apart = texts["scontrol_node"].replace("main,private", "main", 1)
    texts["scontrol_node"] = apart.replace("main,private", "private")
    site = a_site(tmp_path, monkeypatch, pending=f"{reason}\n", **texts)
    code, _, err = init("guests", "--yes", "--wait=10m")
    assert code == 2 and not lacking(err, "no node of main", "the job does not start", said)
    assert "no node of private" in err and len(site.submitted()) == 2


@pytest.mark.parametrize(
    ("limit", "minutes"), [("", 5), ("1d", 5), ("1m30s", 1), ("30s", 1), ("4m", 4)]
)
def test_the_job_of_init_is_within_the_partitions_time_limit(limit, minutes):
    words = inspect.command(Partition("p", True, limit), [], 300)
    assert f"--time={minutes}" in words


def test_a_job_that_waits_says_so_once(init, tmp_path, monkeypatch):
    monkeypatch.setattr("nearmetal.cluster.ask.LOOK", (0.1, 0.1))
    monkeypatch.setattr("nearmetal.init.inspect.BOOT", 0)
    a_site(tmp_path, monkeypatch, pending="Resources\n")
    code, _, err = init("guests", "--yes", "--wait=1s")
    assert code == 2 and err.count("the job waits. Slurm's reason is Resources") == 1
    assert not lacking(err, "the nodes are busy", "--wait 30m", "no answer within 1 s")


def test_a_refusal_names_the_option_that_answers_it(init, tmp_path, monkeypatch):
    words = "srun: error: Unable to allocate resources: Invalid account or account/partition "
    a_site(tmp_path, monkeypatch, refused=f"{words}combination specified\n")
    code, _, err = init("guests", "--yes")
    assert code == 2 and not lacking(err, "combination specified", "--access=--account=NAME")


def test_text_of_a_prolog_is_no_fact_of_a_node(init, tmp_path, monkeypatch):
    banner = "=====\nJob ID=4711\nSLURM_JOB_ID = 4711\n"
    a_site(tmp_path, monkeypatch, before=banner, after=banner)
    assert init("guests", "--yes")[0] == 0
    assert "on vm-a1" in (init.directory / "guests.yaml").read_text()


def test_a_hierarchy_is_read_in_every_language(init, monkeypatch):
    for name, text in (("LANG", "de_DE.UTF-8"), ("LMOD_OVERRIDE_LANG", "de")):
        monkeypatch.setenv(name, text)
    assert init("infiniband", "--yes", lmod=True)[0] == 0
    [openmpi] = written(init, "hpc-example")["environments"]
    assert openmpi["modules"] == ["gcc/12.2.0", "openmpi/5.0.3"]


def test_a_hierarchy_that_is_not_understood_is_reported(tmp_path):
    lmod = tmp_path / "lmod"
    lmod.write_text("#!/bin/sh\necho ERROR: load something first >&2\n")
    lmod.chmod(0o755)
    asker = Asker()
    site = modules.Modules("lmod", "LMOD_CMD is set", (str(lmod), "python"))
    assert site.needed("openmpi/5", asker) == ["openmpi/5"]
    assert not lacking(asker.unread[0], "module spider openmpi/5", "load something", "Fix: ")


def test_every_case_has_a_limit_of_time_in_the_queue(init):
    init("guests", "--yes")
    assert written(init, "guests")["partitions"][0]["extras"]["max_pending_time"] == "1h"


@pytest.mark.parametrize(
    ("module", "name", "variables"),
    [
        ("impi/2021.9.0", "intelmpi", {}),
        ("mvapich2/2.3.7", "mvapich", {"MV2_ENABLE_AFFINITY": "0"}),
    ],
)
def test_other_mpi_libraries_are_described_whole(
    init, tmp_path, monkeypatch, module, name, variables
):
    a_site(tmp_path, monkeypatch, module_avail=f"{module} <L>\n")
    assert init("guests", "--yes")[0] == 0
    system = written(init, "guests")
    [environment] = system["environments"]
    assert (environment["name"], environment["modules"]) == (name, [module])
    assert (environment["cc"], environment["features"]) == ("mpicc", ["mpi"])
    assert dict(environment["env_vars"]) == {"SLURM_MPI_TYPE": "pmi2", **variables}
    [partition] = system["partitions"]
    assert name in partition["environs"] and partition["features"] == ["mpi"]
    assert partition["launcher"] == "srun"


#: Source of a published `module avail` -> its names, types of `srun --mpi=list` (of the source,
#: else usual ones), and each environment's module and type.
PUBLISHED = {
    "docs.aws.amazon.com/parallelcluster intelmpi-v3; open-mpi/ompi pull 11746": (
        "dot libfabric-aws/1.16.0~amzn3.0 module-git modules null openmpi/4.1.4 use.own intelmpi",
        "cray_shasta none pmi2 pmix pmix_v3",
        {"openmpi": ("openmpi/4.1.4", "pmix"), "intelmpi": ("intelmpi", "pmi2")},
    ),
    "Azure's HPC image, in a lab of MicrosoftLearning": (
        """amd/aocl amd/aocl-2.2-4 gcc-9.2.0 mpi/hpcx mpi/hpcx-v2.9.0 mpi/impi mpi/impi-2021
        mpi/impi_2018.4.274 mpi/impi_2021.4.0 mpi/mvapich2 mpi/mvapich2-2.3.6 mpi/openmpi
        mpi/openmpi-4.1.1 use.own""",
        "none pmi2 pmix",
        {
            "openmpi": ("mpi/openmpi-4.1.1", "pmix"),
            "intelmpi": ("mpi/impi_2021.4.0", "pmi2"),
            "mvapich": ("mpi/mvapich2-2.3.6", "pmi2"),
            "hpcx": ("mpi/hpcx-v2.9.0", "pmix"),
        },
    ),
    "confluence.ecmwf.int eRhbDg": (
        "gcc/8.5.0 prgenv/gnu hpcx-openmpi/2.9.0 intel/2021.4.0 intel-mpi/2021.4.0",
        "none pmi2 pmix",
        {"hpcx": ("hpcx-openmpi/2.9.0", "pmix"), "intelmpi": ("intel-mpi/2021.4.0", "pmi2")},
    ),
    "a Cray EX with Slingshot 11": (
        """cray-hdf5-parallel/1.12.2.9 cray-mpixlate/1.0.3 cray-mpich-abi/8.1.28
        cray-mpich/8.1.28 cray-libsci/23.12.5 craype-network-ofi PrgEnv-gnu/8.5.0""",
        "none cray_shasta pmi2",
        {"mpich": ("cray-mpich/8.1.28", "cray_shasta")},
    ),
}


@pytest.mark.parametrize("source", PUBLISHED)
def test_published_lists_of_modules_become_environments(source):
    listed, types, expected = PUBLISHED[source]
    software = modules.of_kinds([Available(name) for name in listed.split()])
    cluster = a_cluster(software=software, mpi_types=types.split())
    somewhere = Inspected("n1", {"command.gcc": "/usr/bin/gcc"}, "srun")
    recognized = {}
    for environment in environments_of(cluster, COMMON, somewhere):
        name, differs = environment.name, environment.differs
        if name != "gnu":
            usual = (COMMON.get(name, {}).get("env_vars"),)
            variables = dict(differs.get("env_vars", usual)[0])
            [module] = differs["modules"].value
            recognized[name] = (module, variables["SLURM_MPI_TYPE"])
    assert recognized == expected


def test_the_library_of_slurms_pmi_is_that_of_a_node():
    facts = {"library.pmi2": "/opt/slurm/lib/libpmi2.so"}
    found = environments(facts=facts, intelmpi=["impi/2021.9.0"])["intelmpi"]
    value, origin, guess = found.differs["env_vars"]
    assert dict(value)["I_MPI_PMI_LIBRARY"] == facts["library.pmi2"] and not guess
    assert "srun" in origin


def test_comments_name_sinfo_where_it_alone_answered(init):
    init("cloud", "mine", "--yes")
    text = (init.directory / "mine.yaml").read_text().partition("\nname:")[2]
    assert "scontrol show partition" not in text and "# sinfo: its name" in text


def test_a_partition_of_other_accounts_is_taken_by_name(init, tmp_path, monkeypatch):
    nodes = site_text("guests", "scontrol_node")
    nodes = nodes.replace("Partitions=main", "Partitions=main,private")
    a_site(tmp_path, monkeypatch, scontrol_node=nodes)
    code, _, err = init("guests", "--yes", "--partition=private")
    assert code == 0 and "private is left out" not in err
    assert [one["name"] for one in written(init, "guests")["partitions"]] == ["private"]


@pytest.mark.parametrize("site", SITES)
def test_what_to_type_next_is_last(init, site, monkeypatch):
    out = init(site, "mine", "--yes", lmod=site == "infiniband")[1]
    lines = out.splitlines()
    assert lines[-2].strip() == "nearmetal doctor mine" and "--system mine" in lines[-1]
    assert f"export NEARMETAL_SYSTEMS_PATH={init.directory}" in out
    assert "export RFM_CONFIG_PATH=" in out
    monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(init.directory))
    assert "NEARMETAL_SYSTEMS_PATH" not in init(site, "another", "--yes")[1]


def test_without_jobs_the_facts_of_nodes_are_guessed(init):
    code, out, _ = init("guests", "--no-jobs")
    assert code == 0 and init.stage.submitted() == []
    text = (init.directory / "guests.yaml").read_text()
    assert re.search(r"link_class: \w+  # guessed: ", text)
    assert re.search(r"hypervisor: \S+  # guessed: ", text)
    assert f"{text.count('# guessed: ')} of them guessed" in out


def test_without_a_terminal_and_an_option_nothing_is_asked_and_nothing_written(init):
    code, _, err = init("guests")
    assert code == 3 and "--yes" in err and "--no-jobs" in err
    assert not init.directory.exists() and init.stage.submitted() == []


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("answer", "jobs"), [("y\n", 1), ("n\n", 0), ("\n", 0), ("", 0)])
def test_on_a_terminal_it_asks_before_it_submits(init, monkeypatch, answer, jobs):
    monkeypatch.setattr(io, "StringIO", Terminal)
    out = init("guests", "--access=--account=me", stdin=answer)[1]
    assert "srun -p main --account=me" in out and "[y/N]" in out
    assert len(init.stage.submitted()) == jobs
    assert (init.directory / "guests.yaml").exists()


def test_nothing_is_overwritten(init):
    init.directory.mkdir()
    there = init.directory / "guests.yaml"
    there.write_text("name: mine\n")
    code, _, err = init("guests", "--yes")
    assert code == 3 and str(there) in err and "nearmetal init NAME" in err
    assert there.read_text() == "name: mine\n" and init.stage.submitted() == []
    (init.directory / "link.yaml").symlink_to(init.directory / "nowhere")
    assert init("guests", "link", "--yes")[0] == 3
    assert not os.path.lexists(init.directory / "nowhere")


def test_a_system_of_the_name_in_another_file_is_named(init):
    init.directory.mkdir()
    there = init.directory / "other.yaml"
    there.write_text("name: guests\n")
    code, _, err = init("guests", "--no-jobs")
    assert code == 3 and str(there) in err and "nearmetal init NAME" in err


def test_unknown_partitions_and_bad_names_are_bad_usage(init):
    code, _, err = init("guests", "--yes", "--partition=mian")
    assert code == 3 and "did you mean main?" in err
    code, _, err = init("guests", "4you", "--yes")
    assert code == 3 and "4you" in err


def test_without_slurm_it_says_what_to_do(init, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    code, _, err = init("guests", "--yes")
    assert code == 3 and "login node" in err and "site-config/examples" in err


def test_a_directory_that_cannot_be_written_is_named_before_any_job(init, monkeypatch):
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: path != init.directory.parent and access(path, mode)
    )
    code, _, err = init("guests", "--yes")
    assert code == 3 and "--directory" in err and init.stage.submitted() == []


def test_without_the_environments_of_a_checkout_it_says_so(init, monkeypatch, tmp_path):
    monkeypatch.setattr(site, "environments_file", lambda: tmp_path / "none.yaml")
    code, _, err = init("guests", "--yes")
    assert code == 3 and "none.yaml" in err and "RFM_CONFIG_PATH" in err


def test_a_job_that_fails_leaves_guesses(init, monkeypatch, tmp_path):
    a_site(tmp_path, monkeypatch)
    (tmp_path / "site" / "node.txt").unlink()
    code, _, err = init("guests", "--yes")
    assert code == 2 and "no node of main was inspected" in err
    text = (init.directory / "guests.yaml").read_text()
    assert re.search(r"link_class: .*# guessed: ", text)


@pytest.mark.parametrize(
    ("text", "name"),
    [("hpc.example", "hpc-example"), ("1st", "_1st"), ("", "cluster"), ("a b/c", "a-b-c")],
)
def test_names_are_those_that_a_file_may_have(text, name):
    assert describe.name_of(text) == name and describe.NAME.fullmatch(name)


def test_patterns_match_host_names_with_and_without_domain():
    [first, second] = describe.patterns(["cn1", "cn002", "gpu-a1.example"])
    assert re.match(first, "cn77") and re.match(first, "cn77.example") and not re.match(first, "cn")
    assert re.match(second, "gpu-a2") and not re.match(second, "gpu-a2x")


def test_a_value_stays_itself_in_yaml():
    for value in ("no", "4.1", "a: b # c", "x" * 300, 'say "hi"', "tab\there", "\u2028", [], 1.5):
        made = lines.Lines()
        made.add(0, "key", value, "origin\nof two lines")
        assert yaml.safe_load(str(made)) == {"key": value} and str(made).count("\n") == 1


def test_the_patterns_of_software_are_no_environments_without_a_name():
    kinds = set(modules.software())
    assert {"openmpi", "mpich", "mpj", "fastmpj"} <= kinds & set(COMMON) | {"fastmpj"}
