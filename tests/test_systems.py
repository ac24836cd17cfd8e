"""The systems' files against their schema, and the configuration that ReFrame makes of them."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from reframe.core.config import load_config
from reframe.core.exceptions import ConfigError
from reframe.core.runtime import _is_valid_part
from reframe.core.systems import System

SITE_CONFIG = Path(__file__).parents[1] / "site-config"
OURS = SITE_CONFIG / "systems"
PARTITIONS = {
    "guests": ["vswitch", "vswitches"],
    "lab": ["native", "passthrough", "emulated"],
    "ec2": ["cc", "cc-sriov", "efa"],
    "cag": ["native", "passthrough"],
    "aist": ["native", "kvm", "kvm-bind"],
    "vmware-ib": ["native", "vmdirectpath", "sriov"],
    "vmware-esx41": ["native", "vm"],
}
FULL_NAMES = [
    f"{system}:{partition}" for system, partitions in PARTITIONS.items() for partition in partitions
]


def load_settings():
    spec = importlib.util.spec_from_file_location("nearmetal_settings", SITE_CONFIG / "settings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", autouse=True)
def plain_environment():
    """Nothing of what the person who runs the tests has set for their site."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("RFM_", "NEARMETAL_"))]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="module")
def settings(plain_environment):
    return load_settings()


@pytest.fixture(scope="module")
def configuration(plain_environment):
    """Through ReFrame's own loader and schema."""
    loaded = load_config(str(SITE_CONFIG / "settings.py"))
    loaded.validate()
    # No modules system where the tests run; ReFrame then doesn't look for one.
    loaded.add_sticky_option("general/resolve_module_conflicts", False)
    return loaded


def a_system(**extras) -> dict:
    """A valid file's content. An extra that is None is left out."""
    extras = {"link_class": "native", "link_speed_gbps": 10, "hypervisor": "none", **extras}
    return {
        "name": "here",
        "hostnames": ["^here$"],
        "partitions": [
            {
                "name": "batch",
                "scheduler": "slurm",
                "launcher": "srun",
                "environs": ["openmpi"],
                "extras": {key: value for key, value in extras.items() if value is not None},
            }
        ],
    }


def configure(settings, directory: Path, **files) -> dict:
    for stem, content in files.items():
        (directory / f"{stem}.yaml").write_text(yaml.safe_dump(content))
    return settings.configure([directory], "/results")


def partition_of(configuration, full_name: str):
    configuration.select_subconfig(full_name)
    [partition] = System.create(configuration).partitions
    return partition


# The systems that come with Nearmetal


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(
        yaml.safe_load((SITE_CONFIG / "schema.yaml").read_text())
    )


def test_systems_and_partitions_are_complete_and_each_file_is_named_after_its_system(settings):
    found = {path.stem: settings.read_system(path) for path in OURS.iterdir()}
    assert {
        name: [partition["name"] for partition in system["partitions"]]
        for name, system in found.items()
    } == PARTITIONS
    assert all(name == system["name"] for name, system in found.items())


@pytest.mark.parametrize("full_name", FULL_NAMES)
def test_reframe_selects_every_partition(configuration, full_name):
    partition = partition_of(configuration, full_name)
    configuration.validate()
    assert partition.fullname == full_name
    assert partition.max_jobs == 1
    assert partition.extras["source"] and partition.extras["link_type"]
    assert all(isinstance(value, (str, int, float)) for value in partition.extras.values())
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
        "mpj",
        "fastmpj",
        "openmpi-sif",
        "mpich-sif",
        "mpj-sif",
    ]
    assert (environments["openmpi"].modules, environments["openmpi"].env_vars) == (
        ["openmpi"],
        {"SLURM_MPI_TYPE": "pmix"},
    )
    assert environments["mpich"].env_vars == {"SLURM_MPI_TYPE": "pmi2"}
    assert (environments["mpj"].modules, environments["fastmpj"].modules) == (["mpj"], [])
    assert (environments["gnu"].modules, environments["gnu"].cc) == ([], "gcc")


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
        ({"rack": ["a", "b"]}, "extras.rack"),
        ({"rack": True}, "extras.rack"),
    ],
)
def test_a_wrong_extra_is_rejected_with_its_place_and_fix(settings, tmp_path, extra, place):
    with pytest.raises(ConfigError, match=rf"site\.yaml:\n  here:batch: {place}: .*Fix: "):
        configure(settings, tmp_path, site=a_system(**extra))


@pytest.mark.parametrize(
    "text, message",
    [
        ("", r"site\.yaml:\n  system: None is not of type 'object'. Fix: write a mapping"),
        ("name: [", r"site\.yaml: cannot be read as YAML"),
        (
            "name: here\nhostnames: []\npartitions: []\n",
            r"here: partitions: .*Fix: list at least one partition",
        ),
        (
            "name: here\nhostnames: []\npartitions: [batch]\n",
            r"here:partition 1: 'batch' is not of type 'object'",
        ),
        (
            "name: here\nhostname: []\npartitions: []\n",
            r"'hostname' was unexpected.*Fix: correct or remove the key",
        ),
    ],
)
def test_a_malformed_file_is_rejected(settings, tmp_path, text, message):
    (tmp_path / "site.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        configure(settings, tmp_path)


def test_every_fault_is_told_at_once(settings, tmp_path):
    with pytest.raises(ConfigError) as error:
        configure(settings, tmp_path, site=a_system(link_class=None, hypervisor=None))
    assert str(error.value).count("here:batch: ") == 2


def test_two_files_of_one_system_are_named(settings, tmp_path):
    with pytest.raises(ConfigError) as error:
        configure(settings, tmp_path, first=a_system(), second=a_system())
    assert all(str(tmp_path / name) in str(error.value) for name in ("first.yaml", "second.yaml"))


def test_two_partitions_of_one_name_are_rejected(settings, tmp_path):
    system = a_system()
    system["partitions"] *= 2
    with pytest.raises(ConfigError, match="more than one partition is named batch"):
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
    [("virtio", {"nic_emulated"}), ("e1000e", {"nic_emulated"}), ("vfio", {"nic_passthrough"})],
)
def test_the_labs_virtual_machines_are_a_partition_while_there_are_some(
    settings, monkeypatch, nic, features
):
    monkeypatch.setenv("NEARMETAL_LAB_VM", nic)
    lab = settings.read_system(OURS / "lab.yaml")
    [vm] = [settings.configure_partition(p) for p in lab["partitions"] if p["name"] == "vm"]
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


def reframe(*arguments, **environment) -> subprocess.CompletedProcess:
    """ReFrame's command as a user has it, without a modules system."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from reframe.frontend.cli import main; main()",
            "--nocolor",
            *arguments,
        ],
        env={
            **os.environ,
            "RFM_CONFIG_PATH": str(SITE_CONFIG),
            "RFM_RESOLVE_MODULE_CONFLICTS": "0",
            **environment,
        },
        text=True,
        capture_output=True,
    )


def test_the_command_finds_a_sites_own_directory_first_and_writes_below_the_prefix(tmp_path):
    (tmp_path / "site.yml").write_text(yaml.safe_dump({**a_system(), "hostnames": [".*"]}))
    shown = reframe("--show-config", NEARMETAL_SYSTEMS_PATH=str(tmp_path), RFM_PREFIX="/elsewhere")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    config, _ = json.JSONDecoder().raw_decode(shown.stdout)
    assert [system["name"] for system in config["systems"]] == ["here"]
    assert config["systems"][0]["prefix"] == "/elsewhere"
    assert config["storage"] == [{"enable": True, "sqlite_db_file": "/elsewhere/results.db"}]
    assert config["general"][0]["report_file"].startswith("/elsewhere/reports/")
    [console] = config["logging"][0]["handlers$"]
    assert (console["type"], console["level"]) == ("stream", "info")
    [perflog] = config["logging"][0]["handlers_perflog"]
    assert perflog["type"] == "filelog" and "%(check_#ALL)s" in perflog["format"]


def test_a_sites_own_system_replaces_ours_of_the_same_name(tmp_path):
    (tmp_path / "mine.yml").write_text(yaml.safe_dump({**a_system(), "name": "ec2"}))
    shown = reframe("--show-config", NEARMETAL_SYSTEMS_PATH=str(tmp_path), RFM_SYSTEM="ec2")
    config, _ = json.JSONDecoder().raw_decode(shown.stdout)
    assert [system["name"] for system in config["systems"]] == ["ec2"]
    assert [partition["name"] for partition in config["systems"][0]["partitions"]] == [
        p["name"] for p in a_system()["partitions"]
    ]
    (tmp_path / "twice.yml").write_text(yaml.safe_dump({**a_system(), "name": "ec2"}))
    failed = reframe("--show-config", NEARMETAL_SYSTEMS_PATH=str(tmp_path))
    assert failed.returncode == 1 and "is already defined in" in failed.stdout + failed.stderr


def test_results_go_into_the_checkout(settings):
    assert (
        settings.site_configuration["storage"][0]["sqlite_db_file"]
        == f"{SITE_CONFIG.parent}/results/results.db"
    )
    assert {system["prefix"] for system in settings.site_configuration["systems"]} == {
        f"{SITE_CONFIG.parent}/results"
    }


@pytest.mark.parametrize("path", ["/no/such/directory", "systems"])
def test_the_command_fails_where_a_sites_directory_is_wrong(path):
    failed = reframe("--system=lab", "--show-config", NEARMETAL_SYSTEMS_PATH=path)
    assert failed.returncode == 1
    assert f"{path}: not the absolute path of a directory. Fix: " in failed.stdout + failed.stderr
