"""An error that nobody foresaw ends each of the project's commands with one line and a code that
means nothing else."""

import os
import subprocess
import sys

import pytest

#: Command by name: its module, its code for the unforeseen, and a module that breaks when it is
#: called.
COMMANDS = {
    "locks": ("nearmetal.locks.spack", 3, "read_lock"),
    "images": ("nearmetal.locks.images", 4, "build_all"),
    "lab": ("nearmetal.lab.__main__", 3, "status"),
}
BREAK = """
import importlib.util, sys
name = sys.argv.pop(1)
path = importlib.util.find_spec(name).origin
text = open(path).read()
broken = "def {name}(*_, **__): raise KeyError('nobody', 'foresaw this')\\n\\n"
before, main, after = text.rpartition('if __name__ == "__main__":')
exec(compile(before + broken + main + after, path, "exec"), {{"__name__": "__main__", "__file__": path}})
"""  # noqa: E501


@pytest.mark.parametrize("options", [[], ["--debug"]])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_unforeseen_error_has_a_code_of_its_own(tmp_path, command, options):
    path, code, name = COMMANDS[command]
    words = ["status"] if command == "lab" else []
    done = subprocess.run(
        [sys.executable, "-c", BREAK.format(name=name), path, *options, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "NEARMETAL_IMAGES": str(tmp_path / "images")},
    )
    assert done.returncode == code, done.stderr
    assert f"{command}: unforeseen KeyError" in done.stderr and "--debug" in done.stderr
    assert ("Traceback" in done.stderr) == bool(options)
    assert options or len(done.stderr.splitlines()) == 1
