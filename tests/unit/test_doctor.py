"""`nearmetal doctor`: what is found without a job, and what a failed case lacks by its words."""

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest
import yaml

from nearmetal import cli
from nearmetal.checks import waiting
from nearmetal.cluster.cluster import Cluster
from nearmetal.cluster.slurm import Partition
from nearmetal.doctor import contradicted, described, here, smoke
from nearmetal.doctor.finding import Finding, together
from nearmetal.results import Case
from nearmetal.site.system import read_environments, warn_once
from tests.support.clusters import stage
from tests.support.paths import CHECKOUT
from tests.support.said import lacking

KNOWN = read_environments(CHECKOUT / "site-config" / "environments.yaml")
SITES = {
    "guests": {
        "modules_system": "envmod",
        "environments": [
            {
                "name": "openmpi",
                "modules": ["mpi/openmpi-x86_64"],
                "env_vars": [["SLURM_MPI_TYPE", "pmi2"]],
            },
            {"name": "mpich", "modules": ["mpi/mpich-x86_64"]},
        ],
        "access": ["-p main"],
        "scheduler": "slurm",
    },
    "infiniband": {
        "modules_system": "lmod",
        "environments": [{"name": "openmpi", "modules": ["gcc/12.2.0", "openmpi/5.0.3"]}],
        "access": ["-p batch"],
        "scheduler": "squeue",
    },
}
#: Site -> environments of its partition.
ENVIRONS = {"guests": ["openmpi", "mpich", "gnu"], "infiniband": ["openmpi", "gnu"]}


EXTRAS = (
    *("cores_per_node", "ranks_per_node", "nodes", "max_time_limit", "guest_memory_gb"),
    "hypervisor",
)


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    """Runs the command without jobs on a site: (exit code, output, errors)."""

    def run(site, *words, **changes):
        if not (tmp_path / "bin").exists():
            stage(site, tmp_path, monkeypatch, lmod=site == "infiniband")
            (tmp_path / "bin" / "reframe").symlink_to("/bin/true")
            (tmp_path / "bin" / "scancel").symlink_to("/bin/true")
        (tmp_path / "systems").mkdir(exist_ok=True)
        document = a_system(site, **changes)
        (tmp_path / "systems" / "mine.yaml").write_text(yaml.safe_dump(document))
        monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(tmp_path / "systems"))
        monkeypatch.setenv("RFM_CONFIG_PATH", str(CHECKOUT / "site-config"))
        monkeypatch.setattr("sys.argv", ["nearmetal", "doctor", "--no-jobs", *(words or ["mine"])])
        code = cli.main()
        return (code, *capsys.readouterr())

    return run


def a_system(site: str, **changes) -> dict:
    """Contents of a file that describes the site, but for the changes."""
    told = {"environs": ENVIRONS[site], **SITES[site], **changes}
    partition = {
        "name": "batch",
        "launcher": "srun",
        "extras": {
            "link_class": "native",
            "link_speed_gbps": 10,
            "hypervisor": "none",
            "cores_per_node": 8,
            **{key: told[key] for key in EXTRAS if key in told},
        },
        **{key: told[key] for key in ("features",) if key in told},
        **{key: told[key] for key in ("scheduler", "access", "environs")},
    }
    if "container_platforms" in told:
        partition["container_platforms"] = told["container_platforms"]
    return {
        "name": "mine",
        "hostnames": told.get("hostnames", []),
        "modules_system": told["modules_system"],
        "environments": told["environments"],
        "partitions": [partition],
    }


@pytest.mark.parametrize("site", SITES)
def test_a_file_that_fits_lacks_nothing(doctor, site):
    code, out, _ = doctor(site)
    assert (code, "missing" in out.replace("nothing is missing", "")) == (0, False), out


@pytest.mark.parametrize(
    "option", ["--cpus-per-task=4", "--gpus-per-node=4", "--wckey=my-project", "--qos=high-prio"]
)
def test_an_option_with_a_p_in_it_names_no_partition(doctor, option):
    code, out, _ = doctor("guests", access=["-p main", option])
    assert code == 0, out


def test_modules_that_conflict_with_loaded_ones_are_left_to_the_smoke_case(doctor, tmp_path):
    doctor("guests")
    (tmp_path / "bin" / "modulecmd").unlink()
    (tmp_path / "bin" / "modulecmd").write_text(
        '#!/bin/sh\n[ "$2" != -V ] || { echo "Modules Release 5.2.0" >&2; exit; }\n'
        'echo "ERROR: Module cannot be loaded due to a conflict." >&2; exit 1\n'
    )
    (tmp_path / "bin" / "modulecmd").chmod(0o755)
    code, out, _ = doctor("guests")
    assert code == 0, out


def test_slurm_that_does_not_answer_is_named(doctor, tmp_path):
    doctor("guests")
    for name in ("scontrol", "sinfo"):
        (tmp_path / "bin" / name).unlink()
        (tmp_path / "bin" / name).write_text("#!/bin/sh\necho no controller >&2; exit 1\n")
        (tmp_path / "bin" / name).chmod(0o755)
    code, out, _ = doctor("guests")
    assert code == 2 and "Slurm names no partition" in out and "no controller" in out


@pytest.mark.parametrize(
    ("site", "changes", "words"),
    [
        ("guests", {"access": ["-p mian"]}, ["'mian' is unknown", "did you mean main?", "sinfo"]),
        ("infiniband", {"access": ["-p closed"]}, ["closed is not UP"]),
        ("infiniband", {"access": ["-p batch,closed"]}, ["closed is not UP"]),
        ("infiniband", {"scheduler": "slurm"}, ["no accounting", "scheduler: squeue"]),
        ("guests", {"modules_system": "lmod"}, ["has envmod", "modules_system: envmod"]),
        (
            "guests",
            {"environments": [{"name": "openmpi", "modules": ["openmpi/9"]}]},
            ["openmpi/9 cannot be loaded", "Unable to locate", "module avail"],
        ),
        (
            "guests",
            {"environments": [{"name": "openmpi", "modules": ["mpi/openmpi-x86_64"]}]},
            ["no MPI type pmix", "it has pmi2", "SLURM_MPI_TYPE"],
        ),
        ("guests", {"environs": ["gnu", "openmpi-sif"]}, ["no container_platforms"]),
        (
            "guests",
            {"environs": ["openmpi-sif"], "container_platforms": [{"type": "Apptainer"}]},
            ["no image", "openmpi.sif", "make images"],
        ),
    ],
)
def test_what_is_missing_is_named_with_its_fix(doctor, site, changes, words):
    if changes.get("environs"):
        changes = {"environments": [], **changes}
    code, out, _ = doctor(site, **changes)
    assert code == 2
    lines = [line for line in out.splitlines() if line.startswith("missing: ")]
    assert any(all(word in line for word in [*words, "Fix: "]) for line in lines), out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cores_per_node": 64}, ["cores_per_node is 64, but Slurm has 8"]),
        ({"ranks_per_node": 9}, ["ranks_per_node is 9, but Slurm has 8"]),
        ({"nodes": 30}, ["nodes is 30, but Slurm has 2"]),
        ({"max_time_limit": "1d"}, ["max_time_limit is 1d", "allows 12h"]),
        ({"guest_memory_gb": 310}, ["guest_memory_gb is 310"]),
        ({"access": ["-p main", "--account=biologie"]}, ["'biologie'", "did you mean biology?"]),
        ({"access": ["-p private"]}, ["admits no account of yours (biology)"]),
    ],
)
def test_what_slurm_contradicts_is_named(doctor, changes, words):
    code, out, _ = doctor("guests", **changes)
    [line] = [line for line in out.splitlines() if line.startswith("missing: ")]
    assert code == 2 and not lacking(line, *words, "Fix: ", "mine.yaml")


def test_an_unknown_qos_is_named():
    cluster = Cluster(qos=["normal", "high"])
    partition = {"name": "batch", "access": ["-p main -q hihg"], "extras": {}}
    [found] = contradicted.findings("mine.yaml", partition, [Partition("main", True, "")], cluster)
    assert not lacking(str(found), "your qos 'hihg' is unknown", "did you mean high?", "--qos")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hypervisor": "kvmm"}, ["hypervisor", "'kvmm' is unknown", "did you mean kvm?"]),
        ({"hostnames": ["*login*"]}, ["hostnames: '*login*' is no regular expression", "`.*`"]),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(doctor, changes, words):
    code, _, err = doctor("guests", **changes)
    assert code == 3 and not lacking(err, *words, "mine.yaml", "Fix: ")


@pytest.mark.parametrize("place", ["site-config", "/nowhere/site-config"])
def test_a_configuration_path_that_holds_from_here_alone_is_named(place):
    [found] = [one for one in here.findings([], {"RFM_CONFIG_PATH": place}) if place in one.what]
    assert "relative or not there" in found.what and "export RFM_CONFIG_PATH=/" in found.fix


def test_what_the_installed_reframe_refuses_is_repeated(doctor, tmp_path):
    doctor("guests")
    (tmp_path / "bin" / "reframe").unlink()
    (tmp_path / "bin" / "reframe").symlink_to(Path(sys.executable).with_name("reframe"))
    code, out, _ = doctor("guests", features=["1_node"])
    [line] = [line for line in out.splitlines() if line.startswith("missing: ")]
    assert code == 2 and not lacking(line, "mine.yaml", "'1_node' has a digit first", "Fix: rename")
    assert doctor("guests")[0] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"name: mine\nname: other\n", ["line 2: the key 'name' is there twice"]),
        (b"name: x\n\thostnames: []\n", ["line 2: a tab indents it", "write blanks"]),
        (b"name: x\ndescr: gr\xfcn\n", ["line 2: the byte 0xfc is not UTF-8", "iconv"]),
    ],
)
@pytest.mark.parametrize("system", [["mine"], ["another"], []])
def test_a_damaged_file_is_named_with_its_line(
    doctor, tmp_path, monkeypatch, capsys, text, words, system
):
    doctor("guests")
    (tmp_path / "systems" / "damaged.yaml").write_bytes(text)
    (tmp_path / "systems" / "mine.yaml").unlink()
    monkeypatch.setattr("sys.argv", ["nearmetal", "doctor", "--no-jobs", *system])
    warn_once.cache_clear()
    assert cli.main() == 3
    assert not lacking(capsys.readouterr().err, "damaged.yaml", *words)


def test_the_printed_findings_are_counted(doctor):
    _, out, _ = doctor("guests", cores_per_node=64, nodes=30, modules_system="lmod")
    assert f"findings: {out.count('missing: ')};" in out


@pytest.mark.parametrize("told", ["no", "yes", ""])
def test_user_namespaces_that_are_off_are_named_where_an_image_needs_them(
    doctor, monkeypatch, tmp_path, told
):
    (tmp_path / "node.sh").write_text(f"echo login user_namespaces={told}")
    monkeypatch.setattr("nearmetal.cluster.node.SCRIPT", tmp_path / "node.sh")
    changes = {"environs": ["openmpi-sif"], "container_platforms": [{"type": "Apptainer"}]}
    _, out, _ = doctor("guests", **changes, environments=[])
    assert ("batch: user namespaces are off" in out) == (told == "no"), out
    assert told != "no" or "user.max_user_namespaces" in out
    assert "user namespaces" not in doctor("guests", environs=["gnu"], environments=[])[1]


@pytest.mark.parametrize(
    ("modules", "javac", "facts"),
    [
        (["java/17.0.2", "mpi/openmpi-x86_64"], "25.0.1", ["JDK is 17 (java/17.0.2)"]),
        (["mpi/openmpi-x86_64"], "21.0.3", ["JDK is 21 (javac 21.0.3)"]),
        (["mpi/openmpi-x86_64"], "", ["no javac on PATH of this login node"]),
    ],
)
def test_a_jdk_that_is_too_old_for_mpj_native_is_named(doctor, tmp_path, modules, javac, facts):
    assert [*found_of_java(doctor, tmp_path, ["java/25.0.1", "openmpi"], "17")] == []
    assert [*found_of_java(doctor, tmp_path, ["mpi/openmpi-x86_64"], "22.0.1")] == []
    [line] = found_of_java(doctor, tmp_path, modules, javac)
    assert not lacking(line, *facts, "22", "Fix: add the module of a JDK", "mine.yaml")


def found_of_java(doctor, tmp_path, modules, javac):
    """The lines on a JDK, where the environment has these modules and PATH this javac."""
    environment = {"name": "mpj-native", "modules": modules, "env_vars": []}
    doctor("guests", environs=["mpj-native"], environments=[environment])
    program = tmp_path / "bin" / "javac"
    program.write_text(f"#!/bin/sh\n{f'echo javac {javac}' if javac else 'exit 1'}\n")
    program.chmod(0o755)
    _, out, err = doctor("guests", environs=["mpj-native"], environments=[environment])
    return [line for line in (out + err).splitlines() if "JDK" in line or "javac" in line]


def test_an_image_and_spack_bring_their_jdk(doctor, tmp_path):
    for name in ("mpj-native-sif", "mpj-native-spack"):
        _, out, err = doctor("guests", environs=[name])
        assert "JDK" not in out + err and "javac" not in out + err


def test_an_unknown_system_or_partition_is_bad_usage(doctor):
    assert doctor("guests", "mnie")[0] == 3
    code, _, err = doctor("guests", "mine:bathc")
    assert code == 3 and "did you mean batch?" in err


def test_the_system_is_that_of_this_host(doctor, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "front7")
    code, out, _ = doctor("guests", "--wait=1m", hostnames=[r"^front\d+$"])
    assert code == 0 and out.startswith("mine: ")
    code, _, err = doctor("guests", "--wait=1m", hostnames=[])
    assert code == 3 and "front7" in err and "nearmetal init" in err


def test_without_a_checkout_there_are_no_smoke_cases(doctor, monkeypatch, tmp_path):
    monkeypatch.setattr(smoke, "CHECKS", tmp_path / "none")
    assert doctor("guests")[0] == 0  # --no-jobs
    monkeypatch.setattr("sys.argv", ["nearmetal", "doctor", "mine"])
    assert cli.main() == 3


def test_login_nodes_lack_versions_commands_and_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = [str(one) for one in here.findings(["slurm", "slurm"], {})]
    assert len(found) == 3
    assert "RFM_CONFIG_PATH" in found[0] and "reframe" in found[1] and "sacct" in found[2]
    assert not any(one.blocks for one in here.findings([], {}))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.0.0")
    [found] = map(str, here.version_of_reframe())
    assert "ReFrame 3.0.0" in found and "pip install" in found


def test_each_supported_reframe_lacks_nothing(monkeypatch):
    for version in ("4.7.4", "4.9.3", "4.10.4"):
        monkeypatch.setattr(importlib.metadata, "version", lambda name, version=version: version)
        assert list(here.version_of_reframe()) == []


# Smoke cases


def test_each_environment_has_a_smoke_case():
    names = ["openmpi", "mpich", "gnu", "mpj", "openmpi-sif", "apps-spack"]
    partition = {"environs": names, "extras": {"nodes": 4}}
    plan = smoke.plan(partition, names, KNOWN)
    by_check = {one.check: one for one in plan}
    assert by_check["^launch$"].environs == ("openmpi", "mpich", "openmpi-sif", "apps-spack")
    assert by_check["^osnoise$"].environs == ("gnu",)
    assert "internode" in next(check for check in by_check if "pingpong" in check)
    assert "launch.ranks_per_node=1" in by_check["^launch$"].settings
    words = smoke.command("site", "all", by_check["^launch$"], 60)
    assert "spack_missing=skip" in words


def test_a_partition_of_one_node_has_both_processes_there():
    partition = {"environs": ["openmpi", "mpj"], "extras": {"nodes": 1}}
    launch, pingpong = smoke.plan(partition, partition["environs"], KNOWN)
    assert "launch.ranks_per_node=2" in launch.settings and "intranode" in pingpong.check


def test_smoke_cases_do_not_get_among_the_results(tmp_path, monkeypatch):
    for name in ("RFM_PREFIX", "RFM_SQLITE_DB_FILE", "RFM_SYSTEM", "RFM_REPORT_FILE"):
        monkeypatch.setenv(name, "/elsewhere")
    made = smoke.environment(tmp_path)
    assert "/elsewhere" not in made.values()
    assert made["RFM_SQLITE_DB_FILE"].startswith(str(tmp_path))


#: What a failed case's words lead to: finding and fix.
WORDS = {
    "srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all": (
        "no MPI type pmix",
        "SLURM_MPI_TYPE",
    ),
    "srun: error: native1: task 0: Killed": ("memory is short", "java_heap_mb"),
    "slurmstepd: error: Detected 1 oom_kill event in StepId=14.0": ("memory is short", "access"),
    "srun: error: Invalid MPI type 'pmix_v4', --mpi=list for acceptable types": (
        "no MPI type pmix_v4",
        "srun --mpi=list",
    ),
    'The application appears to have been direct launched using "srun",': (
        "each process is alone",
        "SLURM_MPI_TYPE",
    ),
    "launch: 1 process(es) instead of 2 know of each other: the launcher": (
        "each process is alone",
        "SLURM_MPI_TYPE",
    ),
    "ERROR: Unable to locate a modulefile for 'openmpi/9'": ("no module openmpi/9", "modules"),
    # Of reports on GitHub: JCSDA-internal/soca 682, pmodels/mpich 6336 and 6612, flux-framework's
    # flux-core 5976 and flux-coral2 125, open-mpi/ompi 11669, openucx/ucx 5284, openpmix/openpmix
    # 3731; of MVAPICH2's source; and of Intel MPI as it runs without its libraries.
    "MPI startup(): PMI server not found. Please set I_MPI_PMI_LIBRARY variable if it is not a "
    "singleton case.": ("Intel MPI does not find Slurm's library", "libpmi2.so"),
    "Component: shmem2": ("older PMIx than srun", "launcher: mpirun"),
    "MPI startup(): Error: Could not open /opt/slurm/lib/libpmi2.so": (
        "library of PMI (/opt/slurm/lib/libpmi2.so)",
        "I_MPI_PMI_LIBRARY",
    ),
    "MPIDI_OFI_mpi_init_hook(1579): ": ("no provider", "FI_PROVIDER"),
    "MPIDI_OFI_mpi_init_hook(1061): OFI addrinfo() failed (ofi_init.c:1061:No data available)": (
        "no provider for the node's NIC (addrinfo)",
        "FI_PROVIDER",
    ),
    "find_provider(170).........: OFI fi_getinfo() failure": ("(fi_getinfo)", "FI_PROVIDER"),
    "find_provider(2683)..........: OFI fi_getinfo() failed (ofi_init.c:2683:find_provider)": (
        "(fi_getinfo)",
        "FI_PROVIDER",
    ),
    "MPIDI_OFI_mpi_init_hook(599): OFI fi_open domain failed (ofi_init.c:599:Invalid argument)": (
        "(fi_open)",
        "craype-network-ofi",
    ),
    "4: Fri Feb  9 07:12:51 2024: [PE_4]:_pmi_mmap_init:Failed to setup PMI mmap.": (
        "Cray's PMI",
        "cray_shasta",
    ),
    "MPIR_pmi_init(110)...: PMI_Init returned 1": ("each process is alone", "SLURM_MPI_TYPE"),
    "PMII_singinit: execv failed: No such file or directory": ("is alone", "SLURM_MPI_TYPE"),
    "MPIDI_CH3_Init(84): No active HCAs found on the system!!! 0": ("InfiniBand", "MVAPICH"),
    "[cn557:1724353] PML ucx cannot be selected": ("no transport for messages ucx", "ucx_info -d"),
    "No components were able to be opened in the pml framework.": ("no transport", "OMPI_MCA_pml"),
    'The following module(s) are unknown: "foo/1"': ("no module foo/1", "modules"),
    "These module(s) exist but cannot be loaded as requested": ("another one", "module spider"),
    "could not find a sane TMod4 installation": ("TMod4", "modules_system"),
    "sbatch: error: invalid partition specified: bathc": ("no such partition", "access"),
    "sbatch: error: Invalid account or account/partition combination": ("account", "--account"),
    "Slurm accounting storage is disabled": ("no accounting", "squeue"),
    "FATAL: while creating user namespace: unshare: Operation not permitted": (
        "user namespaces are off",
        "max_user_namespaces",
    ),
    "ERROR  : Failed to create user namespace: check /proc/sys/user/max_user_namespaces": (
        "user namespaces are off",
        "apptainer-suid",
    ),
    "rfm_job.sh: line 4: srun: command not found": ("no srun", "launcher"),
    "rfm_build.sh: line 9: mpicc: command not found": ("no mpicc", "modules"),
    "rfm_job.sh: 9: no-such-cc: not found": ("no no-such-cc", "modules"),
    "apptainer: command not found": ("no apptainer", "container_platforms"),
    "job cancelled because it was blocked due to reason: PartitionDown": (
        "(PartitionDown): the partition takes or starts no jobs now",
        "leave it out",
    ),
    "image.sh: srun offers no pmix here (none pmi2): Slurm was built without it": (
        "no MPI type pmix",
        "image",
    ),
    "sacct: error: slurm_persist_conn_open: slurmdbd:6819: Connection refused": (
        "accounting does not answer",
        "squeue",
    ),
    "make: command 'mpicc' failed": ("does not compile", "rfm_build.err"),
    "srun: error: Requested node configuration is not available": ("no node", "cores_per_node"),
    "maximum pending time exceeded": ("waited for too long", "--wait"),
    "slurmstepd: error: couldn't chdir to `/home/x': No such file": ("does not see", "PREFIX"),
    "OSError: [Errno 28] No space left on device": ("full", "make space"),
    "Batch job submission failed: Requested time limit is invalid": (
        "time limit",
        "max_time_limit",
    ),
    "nearmetal requires Python 3.11": ("Python is too old", "virtual environment"),
    "task 0 on n1 may run on 1 of 2 cores, although it should be unbound": (
        "other cores",
        "bind_to",
    ),
    "task 0 on n1 may run on 2 of 2 cores: it is not bound (binding=core): check how": (
        "not bound as `bind_to` says",
        "TaskPlugin",
    ),
    "task 1 on n1 may run on 2 of 2 cores: it is not bound: launch with `srun --cpu-bind=cores`": (
        "not bound",
        "bind_to: none",
    ),
    "srun: error: plugin_load_from_file: dlopen(/usr/lib64/slurm/mpi_pmix.so): libpmix.so.2: "
    "cannot open shared object file: No such file or directory": (
        "cannot load its library (libpmix.so.2)",
        "launcher",
    ),
    "srun: error: Couldn't load specified plugin name for mpi/pmix: Dlopen of plugin file failed": (
        "cannot load its library (pmix)",
        "administrators",
    ),
    "./launch: error while loading shared libraries: libmpi.so.40: cannot open shared object": (
        "library libmpi.so.40",
        "modules",
    ),
    "slurmstepd: error: execve(): /scratch/stage/launch: Exec format error": (
        "built for another processor",
        "build_on_nodes",
    ),
    "slurmstepd: error: execve(): /scratch/stage/launch: Permission denied": (
        "may not run /scratch/stage/launch",
        "noexec",
    ),
    "rfm_job.sh: line 12: ./launch: Permission denied": ("may not run ./launch", "RFM_PREFIX"),
    "slurmstepd: error: execve(): launch: No such file or directory": ("does not see", "PREFIX"),
    "mktemp: failed to create '/tmp/x.Y': No space left on device": (
        "/tmp of a node is full",
        "TMPDIR",
    ),
    "sh: 1: hwloc-bind: not found": ("no hwloc", "bind_to"),
    "mpj-native: javac 21 is too old: load the module of a JDK (22 or newer)": (
        "the JDK 21 is too old for mpj-native",
        "from 22 on",
    ),
    "mpj-native: there is no javac: load the module of a JDK (22 or newer)": (
        "no JDK (javac)",
        "modules",
    ),
    "mpi.MPIException: there is no MPI library: none of libmpi.so.40, libmpi.so.12 is in "
    "LD_LIBRARY_PATH, beside an mpicc of PATH or where the loader looks.": (
        "finds no MPI library",
        "MPJ_NATIVE_LIBRARY",
    ),
    "mpi.MPIException: the MPI library libc.so.6 cannot be used: it has no function "
    "MPI_Init_thread, so it is no MPI library": (
        "cannot use libc.so.6, since it has no function MPI_Init_thread",
        "MPJ_NATIVE_LIBRARY",
    ),
}


@pytest.mark.parametrize("words", WORDS)
def test_a_failed_case_lacks_what_its_words_say(words):
    found = smoke.explained(f"some line\n{words}\nanother line")
    assert found and [part in text for part, text in zip(WORDS[words], found)] == [True, True]


def test_the_cause_of_a_symptom_counts():
    """The check fails by its own words, and the library has named the reason."""
    alone = "launch: 1 process(es) instead of 2 know of each other"
    cause = "MPI startup(): PMI server not found. Please set I_MPI_PMI_LIBRARY variable"
    assert "I_MPI_PMI_LIBRARY" in smoke.explained(f"{alone}\n{cause}")[1]


def test_where_srun_speaks_pmi2_alone_another_launcher_is_the_fix(doctor):
    environments = [{"name": "openmpi", "modules": ["mpi/openmpi-x86_64"]}]
    _, out, _ = doctor("guests", environments=environments)
    alone = smoke.explained("process(es) instead of 2 know of each other")
    for text in (out, alone[1]):
        assert not lacking(text, "launcher", "mpirun", "in a partition entry of its own")


def test_each_cause_is_found_by_some_words():
    rows = [[row for row in smoke.causes() if row[0].search(words)] for words in WORDS]
    assert set(smoke.causes()) == {found[0] for found in rows if found}


#: Refusals of sbatch (Slurm 22.05 and 24.11) -> the key that answers each.
REFUSALS = {
    "Invalid account or account/partition combination specified": "add `--account=NAME` to",
    "Job's account not permitted to use this partition (main allows hpc not bio)": "--account=",
    "Invalid qos specification": "add `--qos=NAME` to `access`",
    "Job's QOS not permitted to use this partition": "--qos=",
    "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)": "QOS",
    "User's group not permitted to use this partition": "access",
    "Access/permission denied": "access",
    "Requested time limit is invalid (missing or exceeds some limit)": "max_time_limit",
    "Node count specification invalid": "nodes",
    "Requested node configuration is not available": "cores_per_node",
    "Memory specification can not be satisfied": "resources",
    "Invalid generic resource (gres) specification": "resources",
    "Invalid partition name specified": "access",
    "Requested reservation is invalid": "--reservation",
    "Invalid feature specification": "--constraint",
    "Jobs need --comment=PROJECT here": "access",
}


@pytest.mark.parametrize("words", REFUSALS)
def test_a_refusal_of_sbatch_is_quoted_with_the_key_that_answers_it(words, tmp_path):
    said = waiting.refusal(f"sbatch: error: Batch job submission failed: {words}\n")
    case = Case("launch", "b", "gnu", (), {}, {}, f"pipeline error: {said} (files: /x)", "run")
    found = smoke.of_case(case, "", tmp_path)
    assert words in found.what and REFUSALS[words] in found.fix
    assert "files" not in found.fix and "/x" not in found.fix


def test_words_of_a_sites_plugin_are_quoted_too():
    said = waiting.refusal(
        "sbatch: error: Give a project by --comment\n"
        "sbatch: error: Batch job submission failed: Unspecified error\n"
    )
    assert "(Give a project by --comment / Unspecified error). Fix: " in said


@pytest.mark.parametrize("words", [words for words in REFUSALS if "comment" not in words])
def test_a_refusal_in_a_jobs_own_output_is_known_too(words):
    found = smoke.explained(f"sbatch: error: Batch job submission failed: {words}")
    assert found and words in found[0] and REFUSALS[words] in found[1]


def test_a_case_that_hangs_is_ended_and_says_its_progress(monkeypatch):
    monkeypatch.setattr(smoke, "PROGRESS", 0.1)
    monkeypatch.setattr(smoke, "LOOK", 0.1)
    told = []
    words = ["sh", "-c", "echo 'Waiting: x: the nodes are busy'; exec sleep 60"]
    said = smoke._watched(words, {"PATH": "/bin:/usr/bin"}, 0.7, told.append)
    assert "ReFrame had no end within 1 s" in said
    assert told.count("Waiting: x: the nodes are busy") == 1
    assert any(line.startswith("still running, for ") for line in told)


def test_a_case_of_some_seconds_has_minutes_and_no_more():
    case = smoke.SmokeCase("^launch$", ("gnu",), ())
    assert f"time_limit={smoke.LIMIT}s" in smoke.command("site", "all", case, 60)
    assert smoke.LIMIT <= 120


def test_outputs_are_ordinary_files_of_which_the_beginning_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(smoke, "MOST", 5)
    (tmp_path / "rfm_job.err").write_text("a long text")
    os.mkfifo(tmp_path / "rfm_job.out")
    (tmp_path / "rfm_build.out").mkdir()
    assert smoke.outputs(tmp_path, 0) == {".err": "a lon", ".out": "\n"}


def test_the_stderr_of_a_failed_case_is_shown():
    case = smoke.SmokeCase("^launch$", ("gnu",), ())
    ran = smoke.Ran(errors={"gnu": "\n".join(map(str, range(20)))})
    first, *lines = smoke.lines_of(ran, "batch", case)
    assert first == "stderr of launch on batch with gnu:"
    assert len(lines) == smoke.MOST_LINES + 1 and lines[-2:] == ["    ...", "    19"]


#: Without the program's own words: srun says how each task ended.
COLLATERAL = """srun: error: n1: task 0: Exited with exit code 17
srun: launch/slurm: _step_signal: Terminating StepId=7.1
srun: error: n2: task 1: Killed
"""


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (COLLATERAL, None),
        ("srun: error: n2: task 1: Killed\n", "memory is short"),
        ("a.out: error while loading shared libraries: libx.so: no\n" + COLLATERAL, "libx.so"),
        ("sh: 1: hwloc-bind: not found\nslurmstepd: error: Detected 1 oom_kill event\n", "hwloc"),
    ],
)
def test_the_first_failure_counts(text, what):
    found = smoke.explained(text)
    assert found is None if what is None else what in found[0]


def test_a_failure_that_no_rule_knows_is_quoted(tmp_path):
    case = Case("launch", "batch", "gnu", (), {}, {}, "the moon is wrong", "sanity")
    found = smoke.of_case(case, "nothing known", tmp_path)
    assert "the moon is wrong" in str(found) and str(tmp_path) in found.fix
    assert str(found).startswith("batch: gnu: ")


def test_a_case_that_reframe_skips_or_does_not_reach_is_named():
    text = (
        "[     SKIP ] (1/1) launch /abf @here:local+mpich-sif [launch: there is no x.sif: make "
        "images builds it]\nLog file(s) saved in '/tmp/x.log'\n"
    )
    found = str(smoke.of_output(text, "local", "mpich-sif"))
    assert "make images builds it" in found and found.startswith("local: mpich-sif: ")
    found = str(smoke.of_output("starts\nERROR: the moon is wrong\n", "local", "gnu"))
    assert "the moon is wrong" in found and "Fix: " in found
    assert "nothing" in str(smoke.of_output("", "local", "gnu"))


def test_a_slow_program_runs_all_the_same():
    assert smoke.ran(Case("launch", "batch", "gnu", (), {}, {}, "too slow", "performance"))
    assert not smoke.ran(Case("launch", "batch", "gnu", (), {}, {}, "it died", "sanity"))


def test_findings_of_several_partitions_are_one_line():
    found = [Finding("a", "b", name, "gnu") for name in ("x", "y")] + [Finding("c", "d")]
    assert list(map(str, together(found))) == ["x, y: gnu: a. Fix: b", "c. Fix: d"]
    assert found[0].covers("x", "gnu") and not found[0].covers("x", "openmpi")
    assert found[2].covers("x", "gnu")
    assert not Finding("c", "d", blocks=False).covers("x", "gnu")


def test_the_schedulers_with_commands_are_reframes():
    schema = yaml.safe_load((CHECKOUT / "nearmetal/site/schema.yaml").read_text())
    known = schema["$defs"]["partition"]["properties"]["scheduler"]["enum"]
    assert set(here.COMMANDS) == set(known) - {"local", "ssh"}
    assert set(described.SLURM) <= set(here.COMMANDS)
