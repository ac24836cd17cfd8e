"""topology.toml gives addresses and configuration, or an error that names the key and the fix."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from nearmetal.lab import cluster, links, topology
from nearmetal.lab.namespaces import LabError, Namespaces
from nearmetal.lab.topology import TopologyError
from tests.support.said import lacking

SHIPPED = topology.SHIPPED.read_text()
FACTS = {"cpus": 4, "memory_mb": 8000, "checkout": "/somewhere"}


def load(tmp_path, text=SHIPPED, vm=None, fleet=0):
    path = tmp_path / "topology.toml"
    path.write_text(text)
    return topology.load(path, vm, fleet)


def test_every_node_has_an_address_of_its_own_on_the_segment_of_its_class(tmp_path):
    plan = load(tmp_path)
    assert [node.name for node in plan.nodes] == [
        "native1",
        "native2",
        "passthrough1",
        "passthrough2",
        "emulated1",
        "emulated2",
        *(f"{name}{number}" for name in ("vswitch", "vswitches") for number in (1, 2, 3, 4)),
    ]
    addresses = [node.address for node in plan.nodes] + [kind.gateway for kind in plan.classes]
    assert len(set(addresses)) == 19
    for node in plan.nodes:
        assert node.address.rsplit(".", 1)[0] == node.link_class.gateway.rsplit(".", 1)[0]


def test_a_node_more_is_one_line_and_reaches_slurm_and_hosts(tmp_path):
    plan = load(tmp_path, SHIPPED + 'native3 = "native"\n')
    [node] = [node for node in plan.nodes if node.name == "native3"]
    assert f"NodeName=native3 NodeHostname=native3 NodeAddr={node.address} " in plan.render(
        "slurm.conf", **FACTS
    )
    assert "PartitionName=native Nodes=native1,native2,native3 " in plan.render(
        "slurm.conf", **FACTS
    )
    assert f"{node.address} native3\n" in plan.render("hosts", hosts=plan.hosts(plan.nodes[0]))


def test_a_class_more_is_one_line_and_its_nodes(tmp_path):
    text = SHIPPED.replace(
        "[nodes]", 'slow = { link = "vde", partitions = ["slow"] }\n[nodes]\nslow1 = "slow"'
    )
    plan = load(tmp_path, text)
    assert "PartitionName=slow Nodes=slow1 " in plan.render("slurm.conf", **FACTS)
    assert len({kind.subnet for kind in plan.classes}) == 6


def test_slurm_conf_has_every_partition_and_the_hosts_facts(tmp_path):
    conf = load(tmp_path).render("slurm.conf", **FACTS)
    assert [line.split()[0] for line in conf.splitlines() if line.startswith("PartitionName=")] == [
        f"PartitionName={name}"
        for name in ("native", "passthrough", "emulated", "cc", "vswitch", "vswitches")
    ]
    assert "PartitionName=cc Nodes=emulated1,emulated2 " in conf
    assert conf.count("CPUs=4 RealMemory=8000") == 14


def test_a_host_name_may_have_a_domain_that_slurm_does_not_know(tmp_path):
    plan = load(tmp_path, SHIPPED)
    [node] = [one for one in plan.nodes if one.name == "passthrough1"]
    assert node.host == "passthrough1.alpine.example.org"
    assert f"NodeName=passthrough1 NodeHostname={node.host} " in plan.render("slurm.conf", **FACTS)
    assert (f"{node.host} passthrough1", node.address) in plan.hosts(None)


def test_features_and_counted_resources_reach_slurm(tmp_path):
    text = SHIPPED.replace("slot = 4", "slot = 4, licence = 1")
    plan = load(tmp_path, text + 'native3 = "native"\n')
    conf, gres = plan.render("slurm.conf", **FACTS), plan.render("gres.conf", **FACTS)
    ends = [line.partition("RealMemory=8000 ")[2] for line in conf.splitlines()]
    wanted = [
        f"{features} Gres=slot:4,licence:1 State=UNKNOWN"
        for features in (
            "Feature=bare-metal,rack1",
            "Feature=bare-metal,rack2",
            "Feature=bare-metal",
        )
    ]
    assert [one for one in ends if "Feature" in one] == wanted and "State=UNKNOWN" in ends
    assert "\nGresTypes=licence,slot\n" in conf
    assert "\nNodeName=native3 Name=licence Count=1 Flags=CountOnly\n" in gres
    assert gres.count("\nNodeName=") == 6


def test_without_counted_resources_slurm_gets_none(tmp_path):
    plan = load(tmp_path, SHIPPED.replace(", gres = { slot = 4 }", ""))
    assert "Gres" not in plan.render("slurm.conf", **FACTS)
    assert "NodeName" not in plan.render("gres.conf", **FACTS)


def test_own_scripts_reach_slurm_on_every_node(tmp_path):
    (tmp_path / "mine.sh").write_text("#!/bin/sh\necho export SITE=mine\n")
    text = SHIPPED.replace("[vm]", 'prolog = "mine.sh"\ntask_prolog = "mine.sh"\n\n[vm]', 1)
    plan = load(tmp_path, text)
    assert [name for name, text in plan.scripts] == ["own-prolog.sh", "task-prolog"]
    conf = plan.render("slurm.conf", **FACTS)
    assert "\nTaskProlog=/etc/slurm/task-prolog\n" in conf and "TaskEpilog" not in conf
    assert re.findall(r"^Prolog=(.*)$", conf, re.M) == ["/etc/slurm/*prolog.sh"]
    namespaces = Namespaces(tmp_path)
    placed = cluster.files(plan, namespaces)
    for node in ("login", "native1", "emulated2"):
        assert placed[f"files/{node}/etc/slurm/own-prolog.sh"][1] == 0o755
        assert "SITE=mine" in placed[f"files/{node}/etc/slurm/task-prolog"][0]


def test_a_node_sees_the_controller_on_its_own_segment(tmp_path):
    plan = load(tmp_path)
    assert plan.hosts(plan.nodes[-1])[0] == ("login", plan.nodes[-1].link_class.gateway)
    assert plan.hosts(None)[0] == ("login", plan.classes[0].gateway)


def test_virtual_machines_are_there_only_where_they_are_asked_for_and_change_nobody_elses_address(
    tmp_path,
):
    plain, plan = load(tmp_path), load(tmp_path, vm={"nic": "virtio", "cpus": 3})
    assert plain.guests == [] and "vm" not in plain.render("slurm.conf", **FACTS)
    assert [node.name for node in plan.guests] == ["vm1", "vm2"] and "vm1" not in plan.spaces
    assert plan.nodes[: len(plain.nodes)] == plain.nodes and plan.spaces == plain.spaces
    conf = plan.render("slurm.conf", **FACTS)
    assert (
        "PartitionName=vm Nodes=vm1,vm2 " in conf
        and "NodeName=vm1 NodeHostname=vm1 NodeAddr=10.77.5.2 " in conf
    )
    assert conf.count("CPUs=3 RealMemory=1536") == 2 and conf.count("CPUs=4 RealMemory=8000") == 14
    assert "SlurmdTimeout=60\n" in conf and "SlurmdTimeout=10\n" in plain.render(
        "slurm.conf", **FACTS
    )
    assert "NEARMETAL_LAB_VM=virtio\n" in plan.render("profile.sh", **FACTS)
    assert "NEARMETAL_LAB_VM" not in plain.render("profile.sh", **FACTS)


def test_there_are_as_many_virtual_machines_as_are_asked_for(tmp_path):
    plan = load(tmp_path, vm={"nic": "virtio", "guests": 4, "switches": 2})
    assert [node.name for node in plan.guests] == ["vm1", "vm2", "vm3", "vm4"]
    assert "PartitionName=vm Nodes=vm1,vm2,vm3,vm4 " in plan.render("slurm.conf", **FACTS)
    profile = plan.render("profile.sh", **FACTS)
    assert "NEARMETAL_LAB_GUESTS=4 NEARMETAL_LAB_SWITCHES=2\n" in profile
    assert plan.guests[3].switched == "10.77.69.5"
    assert plan.guests[3].link_class.switch_address == "10.77.69.254"
    everything = load(tmp_path, vm={"nic": "virtio"}, fleet=2)
    assert [node.name for node in everything.nodes[-4:]] == ["vm1", "vm2", "fleet1", "fleet2"]


def test_guests_alternate_between_virtual_switches_that_one_more_joins(tmp_path):
    plan = load(tmp_path, vm={"nic": "virtio", "guests": 4, "switches": 2})
    ran = []
    namespaces = SimpleNamespace(run=lambda *words, stdin, **_: ran.append(stdin) or "")
    links.start(plan, namespaces, [plan.guests[0].link_class])
    script = ran.pop()
    masters = re.findall(r"ip link set (\S+) master (br5x\d)", script)
    assert masters == [
        *[("vbr5x1", "br5x1"), ("vbr5x2", "br5x2")],
        *[("sp5x1", "br5x1"), ("sp5x2", "br5x2"), ("sp5x3", "br5x1"), ("sp5x4", "br5x2")],
    ]
    assert script.count("vde_switch --sock /lab/vde5 ") == 1
    assert "ip address add 10.77.69.254/24 dev br5x1" in script
    # A repair removes them first, but not the guests' devices.
    assert "ip link delete br5x2 " in script and "ip link delete sp5x" not in script
    assert links.check(plan, namespaces) == {}
    assert "ping_from env 10.77.69.5 || echo '5 vm4: no answer" in ran.pop()
    links.start(load(tmp_path, vm={"nic": "virtio"}), namespaces)
    assert "br5x1" not in ran[0] and "/lab/vde5" not in ran[0] and "br5 " in ran[0]


def test_guests_with_nics_that_the_host_gave_away_go_by_these_among_themselves_alone(tmp_path):
    plan = load(tmp_path, vm={"nic": "vfio:0000:01:00.0,0000:02:00.0"})
    vm1, vm2 = plan.guests
    assert (
        dict(plan.hosts(vm1))["vm2"] == "10.77.133.3"
        and dict(plan.hosts(None))["vm2"] == "10.77.5.3" == vm2.address
    )
    assert dict(plan.hosts(vm1))["native1"] == plan.nodes[0].address


def test_guests_within_a_guest_are_nodes_behind_its_tap_device(tmp_path):
    plan = load(tmp_path, vm={"nic": "vfio-nested"})
    assert plan.machine == "vmhost" and [node.name for node in plan.guests] == ["vm1", "vm2"]
    assert plan.taps(plan.qemu_class) == ["p5host"]
    assert plan.entered_by_ssh == [
        ("vmhost", "10.77.5.253"),
        ("vm1", "10.77.5.2"),
        ("vm2", "10.77.5.3"),
    ]
    assert dict(plan.hosts(plan.guests[0]))["vm2"] == "10.77.133.3"
    conf = plan.render("slurm.conf", **FACTS)
    assert conf.count("CPUs=1 RealMemory=640") == 2 and "vmhost" not in conf
    assert load(tmp_path, vm={"nic": "virtio"}).machine == load(tmp_path).machine == ""


def test_a_fleet_has_as_many_nodes_as_are_asked_for(tmp_path):
    none, plan = load(tmp_path), load(tmp_path, fleet=16)
    names = [f"fleet{number}" for number in range(1, 17)]
    assert [node.name for node in plan.nodes if node.link_class.on_demand] == names
    assert f"PartitionName=fleet Nodes={','.join(names)} " in plan.render("slurm.conf", **FACTS)
    assert "fleet" not in none.render("slurm.conf", **FACTS)
    assert [node.address for node in none.nodes] == [node.address for node in plan.nodes][:-16]
    with pytest.raises(TopologyError, match=r"fleet253.*one too many"):
        load(tmp_path, fleet=topology.MOST_NODES + 1)


@pytest.mark.parametrize("line", ['fleet2 = "native"\n', 'more1 = "fleet"\n'])
def test_nodes_on_demand_are_not_listed(tmp_path, line):
    with pytest.raises(TopologyError, match="remove it: `make lab-up NODES=16`"):
        load(tmp_path, SHIPPED + line, fleet=3)


def test_a_template_that_lacks_a_fact_says_so(tmp_path):
    with pytest.raises(Exception, match="'cpus' is undefined"):
        load(tmp_path).render("slurm.conf", memory_mb=1)


@pytest.mark.parametrize(
    "old, new, facts",
    [
        ("[nodes]", "[nodes", ["topology.toml", "line"]),
        ("on_demand = true", "on_demand = 16", ["classes.vm.on_demand: 16 ", "true or false"]),
        (
            '["vm"], on_demand = true',
            '["vm"]',
            ["classes.vm", "VM_GUESTS", "add `on_demand = true`", "list none"],
        ),
        ('controller = "login"', "", ["cluster: 'controller' is missing", "add controller ="]),
        (
            'link = "vde"',
            'link = "vhost"',
            ["classes.emulated", "'vhost'", "bridge, macvlan, vde"],
        ),
        ('"cc"', '"native"', ["classes.emulated", "partition 'native'", "class 'native'"]),
        (
            '{ link = "macvlan", partitions = ["passthrough"], domain = "alpine.example.org" }',
            '"macvlan"',
            ["classes.passthrough: 'macvlan'", "`link` and `partitions`"],
        ),
        (
            'emulated1    = "emulated"',
            'emulated1 = "emualted"',
            ["nodes.emulated1", "class 'emualted'", "native, passthrough"],
        ),
        (
            'class = "native", features',
            'class = "natvie", features',
            ["nodes.native1", "class 'natvie'", "native, passthrough"],
        ),
        (
            "[vm]",
            "prologue = 1\n[vm]",
            ["cluster: the key 'prologue'", "did you mean prolog?", "prolog, epilog"],
        ),
        ("[vm]", 'prolog = "nowhere.sh"\n[vm]', ["cluster.prolog", "nowhere.sh", "relative to"]),
        ("[vm]", "epilog = 1\n[vm]", ["cluster.epilog: 1 ", "name a script"]),
        (
            "[vm]",
            'task_prolog = "topology.toml"\n[vm]',
            ["cluster.task_prolog", "topology.toml is no script", "#!/bin/sh"],
        ),
        ("rack1", "rack,1", ["nodes.native1.features.0: 'rack,1'", "lower-case"]),
        (
            'features = ["rack1"]',
            "memory = 1",
            ["nodes.native1: the key 'memory'", "class, features"],
        ),
        ("bare-metal", "bare metal", ["classes.native.features.0: 'bare metal'", "lower-case"]),
        (
            '"alpine.',
            '"Alpine_',
            ["classes.passthrough.domain: 'Alpine_example.org'", "points join"],
        ),
        ("slot = 4", "slot = 0", ["classes.native.gres.slot: 0 ", "{ slot = 4 }", "1 to 1000"]),
        ("slot = 4", "slot = true", ["classes.native.gres.slot: True ", "{ slot = 4 }"]),
        ("native1 ", "Native_1 ", ["nodes: 'Native_1'", "lower-case"]),
        (
            "native1 ",
            "login ",
            ["nodes.login: ", "the controller", "another name"],
        ),
        (
            'emulated1    = "emulated"\nemulated2    = "emulated"\n',
            "",
            ["classes.emulated", "no node", 'emulated1 = "emulated"'],
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_fix(tmp_path, old, new, facts):
    assert old in SHIPPED
    with pytest.raises(TopologyError) as error:
        load(tmp_path, SHIPPED.replace(old, new, 1))
    assert not lacking(str(error.value), *facts)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TopologyError, match=r"nowhere.toml"):
        topology.load(tmp_path / "nowhere.toml")


def test_a_checkout_that_reframe_could_not_build_in_is_refused_at_once(tmp_path):
    with pytest.raises(LabError, match=r"/my checkout"):
        cluster.up(load(tmp_path), Namespaces(Path("/my checkout")), "image", None, None, 0, print)
