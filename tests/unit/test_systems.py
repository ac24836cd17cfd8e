"""The systems' files against their schema, and the configuration that ReFrame makes of them."""

import importlib
import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
import reframe as reframe_package
import yaml
from reframe.core import backends, containers
from reframe.core.config import load_config
from reframe.core.exceptions import ConfigError
from reframe.core.runtime import _is_valid_env, _is_valid_part
from reframe.core.systems import System

from nearmetal.checkout import PACKAGE
from nearmetal.lab import hardware
from nearmetal.model import catalogue
from nearmetal.site import configuration as configuration_module
from nearmetal.site import places, versions
from nearmetal.site import system as site
from tests.support.paths import CHECKOUT
from tests.support.said import lacking
from tests.support.systems import a_system

SITE_CONFIG = CHECKOUT / "site-config"
OURS = SITE_CONFIG / "systems"
PARTITIONS = {
    "guests": ["vswitch", "vswitches"],
    "lab": ["native", "passthrough", "emulated"],
    "ec2": ["cc", "cc-sriov", "efa", "cc-16"],
    "cag": ["native", "passthrough"],
    "aist": ["native", "kvm", "kvm-bind"],
    "vmware-ib": ["native", "vmdirectpath", "sriov"],
    "vmware-esx41": ["native", "vm"],
}
FULL_NAMES = [
    f"{system}:{partition}" for system, partitions in PARTITIONS.items() for partition in partitions
]


@pytest.fixture(scope="module", autouse=True)
def plain_environment():
    """Nothing of what the person who runs the tests has set for their site."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("RFM_", "NEARMETAL_"))]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="module")
def settings(plain_environment):
    return configuration_module


@pytest.fixture(scope="module")
def configuration(plain_environment):
    """Through ReFrame's own loader and schema."""
    loaded = load_config(str(SITE_CONFIG / "settings.py"))
    loaded.validate()
    # No modules system where the tests run; ReFrame then doesn't look for one.
    loaded.add_sticky_option("general/resolve_module_conflicts", False)
    return loaded


def configure(settings, directory: Path, **files) -> dict:
    for stem, content in files.items():
        (directory / f"{stem}.yaml").write_text(yaml.safe_dump(content))
    return settings.configure(SITE_CONFIG, [directory], "/results")


def partition_of(configuration, full_name: str):
    configuration.select_subconfig(full_name)
    [partition] = System.create(configuration).partitions
    return partition


# The systems that come with Nearmetal


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(site.schema())


def test_an_extra_of_a_check_is_refused_with_its_own_fix():
    partition = {"name": "n", "scheduler": "slurm", "launcher": "srun", "environs": ["gnu"]}
    extras = {"link_class": "native", "link_speed_gbps": 1, "hypervisor": "none"}
    wrong = {"hpcc_processes": "4 8", "osnoise_seconds": 0}
    document = {
        "name": "here",
        "hostnames": [],
        "partitions": [{**partition, "extras": {**extras, **wrong}}],
    }
    with pytest.raises(site.SystemFileError) as error:
        site.System.read(Path("here.yaml"), {}, yaml.safe_dump(document))
    for key in wrong:
        fix = catalogue.extras()[key]["description"]
        assert re.search(
            rf"line \d+: here:n: extras.{key}: .*\. Fix: {re.escape(fix)}$", str(error.value), re.M
        )


def test_a_damaged_file_of_facts_is_an_error_of_the_configuration(monkeypatch, tmp_path):
    (tmp_path / "osnoise.yaml").write_text("method: x\n")
    monkeypatch.setattr(catalogue, "FILES", tmp_path)
    for function in (catalogue.names, catalogue.check, catalogue.extras, site.schema):
        monkeypatch.setattr(
            catalogue if function is not site.schema else site,
            function.__name__,
            function.__wrapped__,
        )
    with pytest.raises(ConfigError, match=r"osnoise.yaml: line 1: .*'variables' is missing. Fix:"):
        site.schema()


def test_systems_and_partitions_are_complete_and_each_file_is_named_after_its_system(settings):
    common = site.read_environments(SITE_CONFIG / "environments.yaml")
    found = {path.stem: site.System.read(path, common) for path in OURS.iterdir()}
    assert {
        name: [partition["name"] for partition in system.partitions]
        for name, system in found.items()
    } == PARTITIONS
    assert all(name == system.name for name, system in found.items())


@pytest.mark.parametrize("full_name", FULL_NAMES)
def test_reframe_selects_every_partition(configuration, full_name):
    partition = partition_of(configuration, full_name)
    configuration.validate()
    assert partition.fullname == full_name
    assert partition.max_jobs == 1
    assert partition.extras["source"] and partition.extras["link_type"]
    plain = {key: value for key, value in partition.extras.items() if key != "expected"}
    assert all(isinstance(value, (str, int, float)) for value in plain.values())
    assert [environment.name for environment in partition.environs]


@pytest.mark.parametrize(
    "full_name, wanted, unwanted",
    [
        (
            "lab:native",
            ["+nic_native +bare_metal", "+apptainer", "%link_speed_gbps=memory", "+java"],
            ["+vm", "+rdma"],
        ),
        ("lab:emulated", ["+nic_emulated +mpi", "%link_class=emulated"], ["+nic_passthrough"]),
        (
            "ec2:cc",
            ["+nic_emulated +vm", "ec2:cc +mpi", "%hypervisor=xen-hvm", "%memory_gb=60"],
            ["+nic_sriov"],
        ),
        ("ec2:cc-sriov", ["+nic_passthrough +nic_sriov"], ["+nic_emulated", "+rdma"]),
        (
            "cag:passthrough",
            ["+nic_passthrough +vm", "%link_speed_gbps=10"],
            ["+nic_sriov", "+bare_metal"],
        ),
        ("aist:kvm-bind", ["+rdma +vm %binding=vcpu"], ["%binding=none"]),
        ("vmware-ib:native", ["+rdma +nic_native -vm"], ["+nic_sriov"]),
        ("vmware-esx41:vm", ["+nic_emulated %hypervisor=esx-4.1"], ["+rdma"]),
    ],
)
def test_checks_select_partitions_by_what_their_files_say(
    configuration, full_name, wanted, unwanted
):
    partition = partition_of(configuration, full_name)
    assert [spec for spec in wanted if not _is_valid_part(partition, [spec])] == []
    assert [spec for spec in unwanted if _is_valid_part(partition, [spec])] == []


@pytest.mark.parametrize(
    "host, system",
    [
        ("login", "lab"),
        ("emulated2", "lab"),
        ("vm1", "lab"),
        ("ip-10-0-0-7", "ec2"),
        ("ip-10-0-0-7.ec2.internal", "ec2"),
        # strangers get ReFrame's own
        ("login1", "generic"),
        ("native", "generic"),
        ("ip-box", "generic"),
        ("cag", "generic"),
        ("kvm", "generic"),
    ],
)
def test_host_names(configuration, monkeypatch, host, system):
    monkeypatch.setattr(configuration, "_autodetect_methods", [("test", lambda: host)])
    assert configuration._detect_system() == system


def test_environments(configuration):
    environments = {env.name: env for env in partition_of(configuration, "ec2:cc").environs}
    assert list(environments) == [
        "openmpi",
        "mpich",
        "gnu",
        "mpj-native",
        "mpj",
        "fastmpj",
        "openmpi-sif",
        "mpich-sif",
        "mpj-native-sif",
        "mpj-sif",
        "openmpi-spack",
        "mpich-spack",
        "mpj-native-spack",
        "mpj-spack",
        "apps-spack",
    ]
    assert (environments["openmpi"].modules, environments["openmpi"].env_vars) == (
        ["openmpi5"],
        {"SLURM_MPI_TYPE": "pmix"},
    )
    assert environments["mpich"].env_vars == {"SLURM_MPI_TYPE": "pmi2"}
    # Java over a library starts as C over it.
    for in_java, in_c in (("mpj-native", "openmpi"), ("mpj-native-sif", "openmpi-sif")):
        assert environments[in_java].modules == environments[in_c].modules
        assert environments[in_java].env_vars == environments[in_c].env_vars
    assert (environments["mpj"].modules, environments["fastmpj"].modules) == (["mpj"], [])
    assert (environments["gnu"].modules, environments["gnu"].cc) == ([], "gcc")
    # As the checks of ReFrame's tutorial choose and build.
    assert environments["gnu"].extras["omp_flag"] == "-fopenmp"
    for wanted in ("+openmp", "+omp_flag", "+openmp %omp_flag=-fopenmp"):
        chosen = [name for name, one in environments.items() if _is_valid_env(one, [wanted])]
        assert chosen == ["gnu"]


@pytest.mark.parametrize(
    "full_name", [name for name in FULL_NAMES if name.split(":")[0] not in ("lab", "guests")]
)
def test_the_systems_of_the_documents_list_all_environments_of_spack(configuration, full_name):
    common = yaml.safe_load((SITE_CONFIG / "environments.yaml").read_text())
    from_spack = {one["name"] for one in common if "spack" in one["features"]}
    assert from_spack == {
        *("openmpi-spack", "mpich-spack", "mpj-native-spack", "mpj-spack", "apps-spack")
    }
    assert from_spack <= {one.name for one in partition_of(configuration, full_name).environs}


# What a site can write, and what it is told when it writes something else


@pytest.mark.parametrize("key", ["link_class", "link_speed_gbps", "hypervisor"])
def test_a_partition_without_it_is_rejected(settings, tmp_path, key):
    with pytest.raises(ConfigError) as error:
        configure(settings, tmp_path, site=a_system(**{key: None}))
    assert str(tmp_path / "site.yaml") in str(error.value)
    assert f"here:batch: extras: '{key}' is missing. Fix: " in str(error.value)


@pytest.mark.parametrize(
    "extra, place",
    [
        ({"link_class": "magic"}, "extras.link_class"),
        ({"link_speed_gbps": 0}, "extras.link_speed_gbps"),
        ({"link_speed_gbps": "fast"}, "extras.link_speed_gbps"),
        ({"hypervisor": False}, "extras.hypervisor"),  # YAML's `no`
        ({"max_pending_time": "2 minutes"}, "extras.max_pending_time"),
        ({"site": {"rack": ["a", "b"]}}, "extras.site.rack"),
        ({"site": {"rack": True}}, "extras.site.rack"),
        ({"site": {"a-b": 1}}, "extras.site"),
    ],
)
def test_a_wrong_extra_is_rejected_with_its_place_and_fix(settings, tmp_path, extra, place):
    with pytest.raises(
        ConfigError, match=rf"site\.yaml:\n  line \d+: here:batch: {place}: .*Fix: "
    ):
        configure(settings, tmp_path, site=a_system(**extra))


@pytest.mark.parametrize(
    "text, message",
    [
        ("", r"site\.yaml:\n  line 1: system: None .*Fix: write a mapping"),
        ("name: [", r"site\.yaml: .*YAML"),
        ("name: here\nname: there\n", r"site\.yaml: .*YAML"),
        ("descr: 2026-13-45\n", r"site\.yaml: .*YAML"),
        ("name: \x00", r"site\.yaml: .*YAML"),
        ("site: &a [*a]\n", r"an alias stands within its own anchor"),
        ("? [a]\n: b\n", r"site\.yaml"),
        ("1: b\n", r"the key 1 is unknown"),
        (
            "name: here\nhostnames: []\npartitions: []\n",
            r"here: partitions: .*Fix: list at least one partition",
        ),
        (
            "name: here\nhostnames: []\npartitions: [batch]\n",
            r"here:partition 1: 'batch' .*object",
        ),
        (
            "name: here\nhostname: []\npartitions: []\n",
            r"'hostname' is unknown; .*hostnames\?.*Fix: correct or remove the key",
        ),
    ],
)
def test_a_malformed_file_is_rejected(settings, tmp_path, text, message):
    (tmp_path / "site.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        configure(settings, tmp_path)


@pytest.mark.parametrize(
    "damage", ["name: here\ndescr: 2026-02-30\n", "name: other\n", "name: [", "- a\n"]
)
@pytest.mark.parametrize(
    "asked, file, is_refused",
    [
        ("lab", "site.yaml", False),
        ("lab:native", "site.yaml", False),
        ("", "site.yaml", True),
        ("here", "site.yaml", True),
        ("lab", "lab.yaml", True),
    ],
)
def test_a_damaged_file_stops_only_what_it_may_describe(
    settings, tmp_path, monkeypatch, capsys, damage, asked, file, is_refused
):
    monkeypatch.setenv("RFM_SYSTEM", asked)
    (tmp_path / file).write_text(damage)

    def systems():
        found = settings.configure(SITE_CONFIG, [tmp_path, OURS], "/results")["systems"]
        return {one["name"] for one in found}

    if is_refused:
        with pytest.raises(ConfigError, match=str(tmp_path / file)):
            systems()
        return
    assert systems() == set(PARTITIONS)
    assert f"left out: {tmp_path / file}:" in capsys.readouterr().err


def test_a_damaged_file_of_the_name_that_is_asked_for_is_found_by_its_text(
    settings, tmp_path, monkeypatch
):
    monkeypatch.setenv("RFM_SYSTEM", "lab")
    (tmp_path / "site.yaml").write_text("name: 'lab' # ours\ndescr: 2026-02-30\n")
    with pytest.raises(ConfigError, match=r"site\.yaml"):
        settings.configure(SITE_CONFIG, [tmp_path, OURS], "/results")


def test_every_fault_is_told_at_once(settings, tmp_path):
    with pytest.raises(ConfigError) as error:
        configure(settings, tmp_path, site=a_system(link_class=None, hypervisor=None))
    assert str(error.value).count("here:batch: ") == 2


def test_two_files_of_one_system_are_named(settings, tmp_path):
    with pytest.raises(ConfigError) as error:
        configure(settings, tmp_path, first=a_system(), second=a_system())
    assert all(str(tmp_path / name) in str(error.value) for name in ("first.yaml", "second.yaml"))


def changed(**keys) -> dict:
    """A valid file's content whose partition has other values of these keys."""
    system = a_system()
    system["partitions"][0] |= keys
    return system


def with_environment(**keys) -> dict:
    return {**a_system(), "environments": [{"name": "openmpi", **keys}]}


@pytest.mark.parametrize(
    "system, place, wrong, meant, known",
    [
        (
            a_system(core_per_node=8),
            "here:batch: extras",
            "core_per_node",
            "cores_per_node",
            "ranks_per_node",
        ),
        (a_system(rdma_devise="x"), "here:batch: extras", "rdma_devise", "rdma_device", "rdma"),
        (changed(scheduler="slrum"), "here:batch: scheduler", "slrum", "slurm", "squeue"),
        (changed(launcher="SRUN"), "here:batch: launcher", "SRUN", "srun", "mpirun"),
        (changed(environs=["opnmpi"]), "here:batch: environs", "opnmpi", "openmpi", "mpich"),
        (changed(acess=[]), "here:batch", "acess", "access", "environs"),
        (changed(features=["jaava"]), "here:batch: features", "jaava", "java", ""),
        (
            changed(container_platforms=[{"type": "Aptainer"}]),
            "here:batch: container_platforms.0.type",
            "Aptainer",
            "Apptainer",
            "Singularity",
        ),
        (
            changed(resources=[{"name": "a", "option": []}]),
            "here:batch: resources.0",
            "option",
            "options",
            "name",
        ),
        (
            changed(sched_options={"use_node_option": True}),
            "here:batch: sched_options",
            "use_node_option",
            "use_nodes_option",
            "hosts",
        ),
        ({**a_system(), "modules_system": "lmdo"}, "here: modules_system", "lmdo", "lmod", "nomod"),
        (with_environment(module=[]), "here: environment openmpi", "module", "modules", "env_vars"),
        (
            with_environment(features=["fastmpi"]),
            "here: environment openmpi: features",
            "fastmpi",
            "fastmpj",
            "",
        ),
        (
            with_environment(extras={"spack_envs": "x"}),
            "here: environment openmpi: extras",
            "spack_envs",
            "spack_env",
            "image",
        ),
        (
            with_environment(extras={"java_gc": "paralel"}),
            "here: environment openmpi: extras.java_gc",
            "paralel",
            "parallel",
            "serial",
        ),
        (
            {**a_system(), "environments": [{"name": "opnmpi", "modules": ["openmpi/5"]}]},
            "here",
            "opnmpi",
            "openmpi",
            "mpich",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_name_is_refused_with_its_place_and_the_nearest_known(
    settings, tmp_path, system, place, wrong, meant, known
):
    with pytest.raises(ConfigError) as error:
        configure(settings, tmp_path, site=system)
    first, line, *_ = str(error.value).splitlines()
    assert first == f"{tmp_path / 'site.yaml'}:"
    number, _, rest = line.removeprefix("  line ").partition(": ")
    assert wrong in (tmp_path / "site.yaml").read_text().splitlines()[int(number) - 1 :][0]
    assert rest.startswith(f"{place}: ") and f"{wrong!r} is unknown" in line
    assert f"did you mean {meant}?" in line and "Fix: " in line and known in line


def test_a_name_like_no_other_is_refused_with_those_that_are_known(settings, tmp_path):
    with pytest.raises(
        ConfigError, match=r"'zzz' is unknown\. Known: .*ranks_per_node.*Fix: .*below `site`"
    ):
        configure(settings, tmp_path, site=a_system(zzz=1))


def test_names_of_environments_yaml_are_checked_as_well(settings, tmp_path):
    path = tmp_path / "environments.yaml"
    path.write_text("- {name: gnu, module: [gcc]}\n")
    with pytest.raises(ConfigError) as error:
        site.read_environments(path)
    assert all(part in str(error.value) for part in (str(path), "environment gnu", "modules"))
    path.write_text("- {name: gnu}\n- {name: gnu}\n")
    with pytest.raises(ConfigError, match="named gnu"):
        site.read_environments(path)


@pytest.mark.parametrize("text", ["", "gnu: {}", "- gnu", "- {modules: []}", "- {name: gnu"])
def test_a_damaged_environments_yaml_is_named(settings, tmp_path, text):
    (tmp_path / "environments.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"environments\.yaml"):
        site.read_environments(tmp_path / "environments.yaml")


@pytest.mark.parametrize("environ, feature", [("openmpi", "mpi"), ("mpj", "mpj")])
def test_a_partition_for_mpi_says_how_many_cores_a_node_has(settings, tmp_path, environ, feature):
    system = a_system(cores_per_node=None)
    system["partitions"][0]["environs"] = ["gnu", environ]
    with pytest.raises(ConfigError) as error:
        configure(settings, tmp_path, site=system)
    words = ["site.yaml", "here:batch: extras: 'cores_per_node' is missing", environ, feature]
    assert all(word in str(error.value) for word in [*words, "ranks_per_node"])
    system["partitions"][0]["extras"]["ranks_per_node"] = 2
    configure(settings, tmp_path, site=system)
    system = a_system(cores_per_node=None)
    system["partitions"][0]["environs"] = ["gnu"]
    configure(settings, tmp_path, site=system)


def test_a_partition_for_vswitch_says_how_many_processes(settings, tmp_path):
    system = {**with_environment(features=["vswitch"])}
    del system["partitions"][0]["extras"]["cores_per_node"]
    with pytest.raises(ConfigError, match=r"here:batch: extras: .*vswitch_processes"):
        configure(settings, tmp_path, site=system)


def test_keys_and_features_of_a_sites_own_are_extras_to_reframe(settings, tmp_path):
    system = with_environment(features=["mpi", "gpu"], extras={"site": {"cuda": "12.4"}})
    system["partitions"][0]["extras"]["site"] = {"gpu_arch": "sm_80", "rack": 7}
    system["partitions"][0]["features"] = ["gpu"]
    made = configure(settings, tmp_path, site=system)
    [partition] = made["systems"][0]["partitions"]
    assert (partition["extras"]["gpu_arch"], partition["extras"]["rack"]) == ("sm_80", 7)
    assert "site" not in partition["extras"] and "gpu" in partition["features"]
    [own] = [one for one in made["environments"] if one.get("target_systems") == ["here"]]
    assert own["extras"] == {"cuda": "12.4"}


def test_features_that_begin_with_a_digit_are_for_older_versions_of_reframe(
    settings, tmp_path, monkeypatch
):
    """EESSI's checks choose partitions by such names, such as 1_node."""
    system = changed(features=["cpu", "1_node"])
    with pytest.raises(ConfigError, match=r"here:batch: features: .*'1_node'.*Fix: .*4\.9"):
        configure(settings, tmp_path, site=system)
    # Commands that only read a system's file take it, and a run without that partition too.
    common = site.read_environments(SITE_CONFIG / "environments.yaml")
    assert site.System.read(tmp_path / "site.yaml", common).partitions
    system["partitions"].append({**system["partitions"][0], "name": "other", "features": []})
    system["partitions"][0]["only_with"] = {"NEARMETAL_TEST_EESSI": "yes"}
    [partition] = configure(settings, tmp_path, site=system)["systems"][0]["partitions"]
    assert partition["name"] == "other"
    monkeypatch.setattr(reframe_package, "VERSION", "4.9.3")
    made = configure(settings, tmp_path, site=changed(features=["cpu", "1_node"]))
    assert {"cpu", "1_node"} <= set(made["systems"][0]["partitions"][0]["features"])


def test_the_gnu_environment_has_the_extra_of_reframes_tutorial(settings, tmp_path):
    """Also where a site adds features of its own."""
    system = changed(environs=["gnu"])
    system["environments"] = [{"name": "gnu", "features": ["openmp", "prgenv"]}]
    made = configure(settings, tmp_path, site=system)
    extras = [one["extras"] for one in made["environments"] if one["name"] == "gnu"]
    assert extras == [{"omp_flag": "-fopenmp"}] * 2


def test_a_sites_own_key_cannot_be_one_of_ours(settings, tmp_path):
    with pytest.raises(ConfigError, match=r"extras.site: 'processes'"):
        configure(settings, tmp_path, site=a_system(site={"processes": 4}))


def test_the_schema_knows_what_reframe_knows():
    """The lists in schema.yaml are ReFrame's own, and the launcher `prun`."""
    for name in (*backends._launcher_backend_modules, *backends._scheduler_backend_modules):
        importlib.import_module(name)
    schema = yaml.safe_load((PACKAGE / "site" / "schema.yaml").read_text())
    partition = schema["$defs"]["partition"]["properties"]
    ours = set(backends._launchers) - {"srun-mpj"}
    assert set(partition["launcher"]["enum"]) == ours
    assert set(partition["scheduler"]["enum"]) == set(backends._schedulers)
    platforms = partition["container_platforms"]["items"]["properties"]
    assert set(platforms["type"]["enum"]) == {
        name for name, one in vars(containers).items() if is_platform(one)
    }
    reframes = json.loads(
        (Path(reframe_package.__file__).parent / "schemas/config.json").read_text()
    )
    systems = reframes["properties"]["systems"]["items"]["properties"]
    theirs = systems["partitions"]["items"]["properties"]
    deprecated = {"variables"}
    assert set(partition) - {"only_with"} == set(theirs) - deprecated
    assert set(schema["$defs"]["sched_options"]["properties"]) == set(
        reframes["defs"]["sched_options"]["properties"]
    )
    assert set(platforms) == set(theirs["container_platforms"]["items"]["properties"]) - deprecated
    environment = reframes["properties"]["environments"]["items"]["properties"]
    assert set(schema["$defs"]["environment"]["properties"]) == set(environment) - deprecated - {
        "target_systems"
    }
    assert set(schema["properties"]["modules_system"]["enum"]) - {*versions.UNTIL_ENVMOD} == set(
        systems["modules_system"]["enum"]
    )
    ours_alone = {"environments"}  # theirs are beside the systems
    assert set(schema["properties"]) - ours_alone == set(systems) - deprecated


def test_reframe_takes_its_own_keys_of_a_system_from_a_file(settings, tmp_path):
    """Each key that ReFrame's schema knows of a system reaches the system that ReFrame makes."""
    own = {
        "prefix": "/scratch/reframe",
        "stagedir": "/scratch/$USER/stage",
        "outputdir": "/project/output",
        "resourcesdir": "/project/resources",
        "max_local_jobs": 2,
        "modules_system": "nomod",
        "env_vars": [["SITE", "here"]],
        "sched_options": {"job_submit_timeout": 90, "use_nodes_option": True},
    }
    system = {**a_system(), **own}
    system["partitions"][0]["sched_options"] = {"job_submit_timeout": 30}
    (tmp_path / "made.json").write_text(json.dumps(configure(settings, tmp_path, here=system)))
    loaded = load_config(str(tmp_path / "made.json"))
    loaded.validate()
    loaded.select_subconfig("here:batch")
    made = System.create(loaded)
    assert (made.prefix, made.outputdir) == (own["prefix"], own["outputdir"])
    assert (made.stagedir, made.resourcesdir) == (own["stagedir"], own["resourcesdir"])
    assert loaded.get("systems/0/sched_options/use_nodes_option") is True
    # ReFrame itself gives a partition nothing of them.
    of_partition = "systems/0/partitions/@batch/sched_options"
    assert loaded.get(f"{of_partition}/use_nodes_option") is True
    assert loaded.get(f"{of_partition}/job_submit_timeout") == 30


def is_platform(one) -> bool:
    base = containers.ContainerPlatform
    return isinstance(one, type) and issubclass(one, base) and one is not base


def test_the_known_features_are_those_that_checks_and_environments_have():
    schema = yaml.safe_load((PACKAGE / "site" / "schema.yaml").read_text())["$defs"]
    of_environments = set(schema["features_of_environments"]["enum"])
    chosen = set()
    library = PACKAGE / "checks"
    for path in [*(SITE_CONFIG.parent / "reframe_checks").rglob("*.py"), *library.rglob("*.py")]:
        for line in path.read_text().splitlines():
            if "valid_prog_environs" in line:
                chosen |= set(re.findall(r"\+(\w+)", line))
    provided = {
        feature
        for environment in yaml.safe_load((SITE_CONFIG / "environments.yaml").read_text())
        for feature in environment["features"]
    }
    assert chosen | provided == of_environments
    features = set(schema["features_of_partitions"]["enum"])
    for path in OURS.iterdir():
        for partition in yaml.safe_load(path.read_text())["partitions"]:
            assert set(partition.get("features", [])) <= features


def test_two_partitions_of_one_name_are_rejected(settings, tmp_path):
    system = a_system()
    system["partitions"] *= 2
    with pytest.raises(ConfigError, match="named batch"):
        configure(settings, tmp_path, site=system)


def test_a_partition_may_be_there_only_at_times(settings, tmp_path, monkeypatch):
    system = a_system()
    [always] = system["partitions"]
    system["partitions"] += [
        {**always, "name": "guests", "descr": kind, "only_with": {"HYPERVISOR": kind}}
        for kind in "ab"
    ]

    def names():
        return [
            (partition["name"], partition.get("descr"))
            for partition in configure(settings, tmp_path, site=system)["systems"][0]["partitions"]
        ]

    assert names() == [("batch", None)]
    monkeypatch.setenv("HYPERVISOR", "b")
    assert names() == [("batch", None), ("guests", "b")]


@pytest.mark.parametrize(
    "nic, features",
    [
        *((nic, {"nic_emulated"}) for nic in hardware.EMULATED),
        ("vfio", {"nic_passthrough"}),
        ("vfio-nested", {"nic_passthrough"}),
        ("vfio-nested-sriov", {"nic_passthrough", "nic_sriov"}),
    ],
)
def test_the_labs_virtual_machines_are_a_partition_while_there_are_some(
    settings, monkeypatch, nic, features
):
    monkeypatch.setenv("NEARMETAL_LAB_VM", nic)
    common = site.read_environments(SITE_CONFIG / "environments.yaml")
    lab = site.System.read(OURS / "lab.yaml", common)
    [vm] = [lab.configured(one) for one in lab.partitions if one["name"] == "vm"]
    assert (
        set(vm["features"]) >= {"vm", "rdma", "mpi", "java", "apptainer", *features}
        and vm["extras"]["hypervisor"] == "qemu"
    )


@pytest.mark.parametrize(
    "extras, features",
    [
        ({"link_class": "native"}, {"nic_native", "bare_metal"}),
        ({"link_class": "passthrough", "hypervisor": "kvm"}, {"nic_passthrough", "vm"}),
        (
            {"link_class": "sriov", "hypervisor": "esxi-8.0", "rdma": True},
            {"nic_passthrough", "nic_sriov", "vm", "rdma"},
        ),
        (
            {"link_class": "emulated", "hypervisor": "xen-hvm", "rdma": False},
            {"nic_emulated", "vm"},
        ),
    ],
)
def test_features_follow_from_extras_and_written_ones_stay(settings, tmp_path, extras, features):
    system = a_system(**extras)
    system["partitions"][0]["features"] = ["mpi", "vm"] if "vm" in features else ["mpi"]
    [partition] = configure(settings, tmp_path, site=system)["systems"][0]["partitions"]
    assert sorted(partition["features"]) == sorted(features | {"mpi"})  # none twice
    assert "rdma" not in partition["extras"]  # else `+rdma` would match `rdma: false`


def test_a_system_overrides_an_environment_by_name_and_only_what_differs(settings, tmp_path):
    system = {**a_system(), "environments": [{"name": "openmpi", "modules": ["openmpi/5"]}]}
    environments = configure(settings, tmp_path, site=system)["environments"]
    common, own = [env for env in environments if env["name"] == "openmpi"]
    assert "target_systems" not in common
    assert own == {**common, "modules": ["openmpi/5"], "target_systems": ["here"]}


def test_defaults_that_a_system_may_override(settings, tmp_path):
    system = {**a_system(), "modules_system": "lmod", "prefix": "/scratch"}
    system["partitions"][0]["max_jobs"] = 4
    [plain, changed] = configure(settings, tmp_path, a={**a_system(), "name": "plain"}, b=system)[
        "systems"
    ]
    assert (plain["modules_system"], plain["prefix"], plain["partitions"][0]["max_jobs"]) == (
        "envmod",
        "/results",
        1,
    )
    assert (changed["modules_system"], changed["prefix"], changed["partitions"][0]["max_jobs"]) == (
        "lmod",
        "/scratch",
        4,
    )


def test_results_go_into_the_checkout(monkeypatch):
    """Where root finds there those of another user, see test_places.py."""
    owner = os.geteuid()
    monkeypatch.setattr(places, "owner", lambda path: owner)
    places.results.cache_clear()
    configuration = configuration_module.site_configuration(SITE_CONFIG)
    places.results.cache_clear()
    results = f"{SITE_CONFIG.parent}/results"
    assert configuration["storage"][0]["sqlite_db_file"] == f"{results}/results.db"
    assert {system["prefix"] for system in configuration["systems"]} == {results}


@pytest.mark.parametrize(
    "asked, words",
    [
        ("nosuch", ["'nosuch' is unknown", "ec2", "lab", "RFM_SYSTEM", "NEARMETAL_SYSTEMS_PATH"]),
        ("ec3", ["'ec3' is unknown", "did you mean ec2?", str(SITE_CONFIG / "systems")]),
        (
            "ec2:nosuch",
            [str(SITE_CONFIG / "systems" / "ec2.yaml"), "'nosuch' is unknown", "cc, cc-sriov, efa"],
        ),
        ("lab:natve", [str(SITE_CONFIG / "systems" / "lab.yaml"), "did you mean native?"]),
        (
            "lab:vm",
            [str(SITE_CONFIG / "systems" / "lab.yaml"), "NEARMETAL_LAB_VM=virtio", "only_with"],
        ),
        (
            "lab:mpirun",
            [str(SITE_CONFIG / "systems" / "lab.yaml"), "NEARMETAL_LAB_LAUNCHERS=yes", "only_with"],
        ),
    ],
)
def test_an_unknown_system_or_partition_is_named_with_the_known_ones(
    settings, monkeypatch, asked, words
):
    monkeypatch.setenv("RFM_SYSTEM", asked)
    with pytest.raises(ConfigError) as refused:
        settings.configure(SITE_CONFIG, [SITE_CONFIG / "systems"], "/results")
    assert not lacking(str(refused.value), *words)
