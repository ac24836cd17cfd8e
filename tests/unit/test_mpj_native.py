"""mpj-native holds the published API, and each of its methods has a test. No JVM is started."""

import re

import pytest

from tests.support.paths import CHECKOUT

NATIVE = CHECKOUT / "mpj-native"
API = {
    name: methods.split()
    for name, _, methods in (
        line.partition(":")
        for line in (NATIVE / "api.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )
}
METHODS = [(name, method) for name, methods in API.items() for method in methods]
TESTS = "".join(
    path.read_text() for path in sorted((NATIVE / "src/test/java/mpjtest").glob("*.java"))
)
#: Methods that end the processes of a test.
WITHOUT_TEST = {("Comm", "Abort")}


@pytest.mark.parametrize("name", API)
def test_the_library_has_each_published_method(name):
    source = (NATIVE / "src/main/java/mpi" / f"{name}.java").read_text()
    found = set(
        re.findall(r"^    public (?:static |synchronized |abstract )*\S+ (\w+)\(", source, re.M)
    )
    assert not set(API[name]) - found


def test_each_published_method_has_a_test():
    assert not [
        f"{name}.{method}"
        for name, method in METHODS
        if (name, method) not in WITHOUT_TEST and not re.search(rf"\b{method}\(", TESTS)
    ]


def test_the_readme_counts_the_published_methods():
    readme = (NATIVE / "README.md").read_text()
    assert f"all {len(METHODS)} methods" in readme
    for name, methods in API.items():
        assert f"| `{name}` | {len(methods)} |" in readme


def test_each_source_names_its_license():
    for path in [*NATIVE.rglob("*.java")]:
        assert path.read_text().startswith("// SPDX-License-Identifier: BSD-3-Clause\n"), path
    assert (NATIVE / "LICENSE").read_text() == (CHECKOUT / "LICENSE").read_text()


def test_its_version_stands_in_the_library_the_project_and_the_changes():
    source = (NATIVE / "src/main/java/mpi/MPI.java").read_text()
    version = re.search(r'LIBRARY = "mpj-native (\d+\.\d+\.\d+)"', source)[1]
    assert f"<version>{version}</version>" in (NATIVE / "pom.xml").read_text().split("<build>")[0]
    assert re.search(r"^## (.*)$", (NATIVE / "CHANGELOG.md").read_text(), re.M)[1] == version
