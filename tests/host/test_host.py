"""Set-up on a host that lacks something, tried on a host whose /etc/os-release is exchanged for the
trial only."""

import os
import shutil
import subprocess

import pytest

from tests.support.paths import CHECKOUT

LAB = CHECKOUT / "nearmetal" / "lab"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root for a mount namespace: run it as root, as CI does"
)


def set_up(tmp_path, os_release: str, packages: str) -> subprocess.CompletedProcess:
    (tmp_path / "os-release").write_text(os_release)
    shutil.copy(LAB / "host.sh", tmp_path)
    (tmp_path / "host-packages.txt").write_text(packages)
    return subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f"mount --bind {tmp_path}/os-release /etc/os-release && exec {tmp_path}/host.sh",
        ],
        capture_output=True,
        text=True,
    )


LIST = (LAB / "host-packages.txt").read_text()


def test_a_host_that_has_all_is_ready(tmp_path):
    done = set_up(tmp_path, "ID=debian\n", "sh | dash | runs this\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_another_distribution_is_told_each_package_and_nothing_changes(tmp_path):
    done = set_up(
        tmp_path, "ID=fedora\n", LIST + "no-such-tool | no-such-package | shows this message\n"
    )
    assert done.returncode == 1
    assert "no-such-package: shows this message (no-such-tool)" in done.stdout
    assert "Nothing was changed." in done.stderr


def test_what_the_tests_need_is_a_list_of_its_own_and_one_of_several_commands_will_do(tmp_path):
    shutil.copy(LAB / "host.sh", tmp_path)
    (tmp_path / "host-packages.txt").write_text("sh | dash | runs this\n")
    (tmp_path / "further.txt").write_text("any:no-such-tool,sh | dash | either will do\n")
    command = [str(tmp_path / "host.sh"), "further.txt"]
    assert subprocess.run(command, capture_output=True, text=True).returncode == 0
    (tmp_path / "further.txt").write_text(
        "any:no-such-tool,nor-this | no-such-package | shows this message\n"
    )
    done = subprocess.run(command, capture_output=True, text=True)
    assert (
        done.returncode == 1
        and "no-such-package: shows this message (any:no-such-tool,nor-this)" in done.stdout
    )


def test_debian_says_what_and_why_before_it_installs_and_names_a_failure(tmp_path):
    done = set_up(
        tmp_path,
        "ID=ubuntu\nID_LIKE=debian\n",
        "no-such-tool | no-such-package | shows this message\n",
    )
    assert done.returncode == 1
    assert done.stdout.index("shows this message") < done.stdout.index(
        "Installing: no-such-package"
    )
    assert "no-such-package" in done.stderr


def test_a_kernel_feature_that_is_missing_is_named_with_what_provides_it(tmp_path):
    """Without CAP_NET_ADMIN no link can be made, as in a container without privileges."""
    (tmp_path / "host-packages.txt").write_text("")
    shutil.copy(LAB / "host.sh", tmp_path)
    done = subprocess.run(
        ["setpriv", "--bounding-set", "-net_admin", str(tmp_path / "host.sh")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "virtual Ethernet" in done.stderr and "modprobe veth" in done.stderr
