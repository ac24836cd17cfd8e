"""`nearmetal init`: the file of a cluster, on clusters of texts."""

import io
import os
import re
import shutil

import pytest
import yaml

from nearmetal import cli
from nearmetal.cluster import modules
from nearmetal.cluster.modules import Available
from nearmetal.init import describe, lines
from nearmetal.init.gather import Cluster, Inspected
from nearmetal.site import described as site_files
from nearmetal.site.site_files import read_environments, read_system
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
    """The site `guests` with other texts."""
    stage("guests", tmp_path, monkeypatch)
    shutil.copytree(CHECKOUT / "tests/support/clusters/guests", tmp_path / "site")
    for name, text in texts.items():
        (tmp_path / "site" / f"{name}.txt").write_text(text)
    monkeypatch.setenv("CLUSTER", str(tmp_path / "site"))


def written(init, name: str) -> dict:
    return read_system(init.directory / f"{name}.yaml", COMMON)


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
    [gnu] = describe.environments_of(cluster, COMMON, somewhere)
    assert (gnu.name, gnu.differs["modules"][0]) == ("gnu", ["GCC/12.3.0"])
    somewhere = Inspected("n1", {"command.gcc": "/usr/bin/gcc"}, "srun")
    [gnu] = describe.environments_of(cluster, COMMON, somewhere)
    assert not gnu.differs
    assert describe.environments_of(a_cluster(), COMMON, None)[0].guess
    none = Inspected("n1", {"command.gcc": "none"}, "srun")
    assert describe.environments_of(a_cluster(), COMMON, none) == []


def test_java_of_a_module_is_loaded_before_its_message_passing():
    software = {"mpj": [Available("mpj")], "java": [Available("Java/17")]}
    cluster = a_cluster(software=software, loads={"mpj": ["mpj"], "java": ["Java/17"]})
    somewhere = Inspected("n1", {"command.gcc": "none", "command.java": "none"}, "srun")
    [mpj] = describe.environments_of(cluster, COMMON, somewhere)
    assert mpj.differs["modules"][0] == ["Java/17", "mpj"]


def environments(*, types=("pmix", "pmi2"), facts=None, **software):
    """Name -> environment of a cluster with these modules, on a node with these facts."""
    software = {
        kind: [Available(name) for name in names] for kind, names in software.items() if names
    }
    loads = {kind: [modules[0].name] for kind, modules in software.items()}
    cluster = a_cluster(software=software, loads=loads, mpi_types=[*types])
    somewhere = Inspected("n1", {"command.gcc": "none", **(facts or {})}, "srun")
    found = describe.environments_of(cluster, COMMON, somewhere)
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
    assert ("guessed" in line) == (launcher == "mpirun" or not types)
    assert (named in line) == (launcher == "mpirun")


def test_cray_mpich_has_crays_wrappers_and_pmi():
    cluster = a_cluster(
        software={"mpich": [Available("cray-mpich/8.1.29")]},
        mpi_types=["none", "cray_shasta", "pmi2"],
    )
    mpich = describe.environments_of(cluster, COMMON, None)[0]
    differs = {key: value for key, (value, _, _) in mpich.differs.items()}
    assert differs["modules"] == ["cray-mpich/8.1.29"] and differs["cc"] == "cc"
    assert differs["env_vars"] == [["SLURM_MPI_TYPE", "cray_shasta"]]


def test_a_library_on_path_needs_no_module():
    facts = {"command.ompi_info": "/usr/bin/ompi_info", "command.gcc": "/usr/bin/gcc"}
    openmpi, _ = describe.environments_of(a_cluster(), COMMON, Inspected("n1", facts, "srun"))
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
    out = init("guests", stdin=answer)[1]
    assert "srun -p main" in out and "[y/N]" in out
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
    monkeypatch.setattr(site_files, "environments_file", lambda: tmp_path / "none.yaml")
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
