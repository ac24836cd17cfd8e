#!/bin/bash -l
# The steps of a pipeline on your Slurm, for gitlab-ci.yml, github-actions.yml and Jenkinsfile.
# `ci/pipeline.sh --help` lists them. A login shell (-l) knows the modules.
set -euo pipefail

usage() {
    cat << 'END'
usage: ci/pipeline.sh STEP

Nearmetal in a pipeline, step by step. The files of GitLab, GitHub and Jenkins beside this
script call it. By hand, the same steps do the same.

Steps on the cluster, in this order, in the checkout:
  install           Check the settings, empty campaign/ and install Nearmetal into .venv.
  measure           Run all checks.
  measure-change    Dry-run all checks, then run those that NEARMETAL_CHECKS selects.
                    Results go to RFM_PREFIX/changes: the history is that of the default branch.
  judge             Judge the run and write its report: `nearmetal gate` and `nearmetal report`.

Step on another machine, or of another user, in the directory that holds campaign/:
  comment URL LOG   Post campaign/gate.md to URL, with a link to the page LOG. Call it as
                    `bash pipeline.sh comment URL LOG`, from a copy of the target branch: no code
                    of a change may run as the user that holds the token.

Environment:
  NEARMETAL_SYSTEM    the system's name in site-config/systems, such as ec2 (without a partition)
  RFM_PREFIX          an absolute directory on the shared file system, outside the checkout
  NEARMETAL_CHECKS    what a change measures, as of `reframe -n`
                      (default: pingpong%placement=internode)
  NEARMETAL_TOKEN     comment: a token that may comment, and may nothing else
  NEARMETAL_CA_FILE   comment: the certificate authority of URL, where the system does not know it

Files in campaign/, kept by the pipelines whatever the exit code:
  gate.json, gate.xml (JUnit), gate.md, gate.prom (OpenMetrics), report.html
  started, prefix, reframe-exit-code    from measure to judge: when, where, how ReFrame ended
  account                               the user that ran the checks, who must not comment

Exit codes:
  0   done. judge: no regression. measure: also where ReFrame failed, which judge reports.
  1   judge: regression. comment: nothing was posted.
  2   judge: incomplete, or ReFrame failed. install: could not install.
  3   wrong usage or setting, or a failed dry run
END
}

fail() {  # CODE WORD...
    local code=$1
    shift
    echo "ci/pipeline.sh: $*" >&2
    exit "$code"
}

check_settings() {
    if [ -z "${NEARMETAL_SYSTEM-}" ]; then
        fail 3 "set the variable NEARMETAL_SYSTEM to a system's name, such as ec2"
    fi
    case "${RFM_PREFIX-}" in
        "$PWD" | "$PWD"/* | [!/]* | "")
            fail 3 "set the variable RFM_PREFIX to an absolute directory on the shared file" \
                "system, outside $PWD"
            ;;
    esac
}

install_nearmetal() {
    rm -rf campaign
    mkdir campaign
    echo "$(id -un)@$(uname -n)" > campaign/account
    check_settings
    trap 'fail 2 "Nearmetal could not be installed into $PWD/.venv; the reason is above"' ERR
    python3 -m venv .venv
    .venv/bin/pip install --require-hashes --no-deps -r requirements-login.lock
    .venv/bin/pip install --no-deps --no-build-isolation -e .
}

activate() {
    if [ ! -d campaign ] || [ ! -f .venv/bin/activate ]; then
        fail 3 "Nearmetal is not installed in $PWD: run \`ci/pipeline.sh install\` first"
    fi
    # shellcheck source=/dev/null
    . .venv/bin/activate
    export RFM_CONFIG_PATH=$PWD/site-config
}

# Run checks. How ReFrame ended is for judge: a failed check still has a verdict and a report.
run_checks() {  # OPTION...
    local code=0
    echo "$RFM_PREFIX" > campaign/prefix
    date +%s > campaign/started
    reframe -c reframe_checks -r --system "$NEARMETAL_SYSTEM" "$@" || code=$?
    echo "$code" > campaign/reframe-exit-code
}

measure() {
    check_settings
    activate
    run_checks
}

measure_change() {
    check_settings
    activate
    export RFM_PREFIX=$RFM_PREFIX/changes
    reframe -c reframe_checks --dry-run --system "$NEARMETAL_SYSTEM" ||
        fail 3 "the dry run failed, so nothing was measured"
    run_checks -n "${NEARMETAL_CHECKS:-pingpong%placement=internode}"
}

# --since: where ReFrame stored no session (it selected nothing, or ended early), the newest one
# would be yesterday's. A clean verdict does not hide that ReFrame itself failed.
judge() {
    local started prefix ran gate=0 report=0
    check_settings
    if ! started=$(cat campaign/started) || ! prefix=$(cat campaign/prefix) ||
        ! ran=$(cat campaign/reframe-exit-code); then
        fail 3 "campaign/ holds no whole run: let \`ci/pipeline.sh measure\` end first"
    fi
    activate
    export RFM_PREFIX=$prefix
    nearmetal gate --confirm --system "$NEARMETAL_SYSTEM" --since "$started" \
        --json campaign/gate.json --junit campaign/gate.xml \
        --markdown campaign/gate.md --openmetrics campaign/gate.prom || gate=$?
    nearmetal report --output campaign/report.html || report=$?
    echo "exit codes: reframe $ran, nearmetal gate $gate, nearmetal report $report"
    if [ "$gate" -ne 0 ]; then exit "$gate"; fi
    if [ "$ran" -ne 0 ]; then exit 2; fi
    exit "$report"
}

# The verdict comes from the change: a link would be read as what it points to.
check_verdict() {
    if [ -L campaign ] || [ -L campaign/account ] || [ -L campaign/gate.md ]; then
        fail 1 "no comment: campaign, campaign/account or campaign/gate.md is a link"
    fi
    if [ "$(cat campaign/account 2> /dev/null)" = "$(id -un)@$(uname -n)" ]; then
        fail 1 "no comment: the change's code ran as this user, and may read the token." \
            "Give the tag or label nearmetal-comment to another machine, or to another user"
    fi
}

# The body of the comment as JSON. A comment on GitHub holds 65,536 characters at most.
write_comment() {  # LOG
    if [ -f campaign/gate.md ]; then
        head -c 60000 campaign/gate.md
        printf '\n\n[Report and figures](%s)\n' "$1"
    else
        printf 'Nearmetal reached no verdict; the log says why: %s\n' "$1"
    fi | env -i PATH="$PATH" python3 -I -c '
import json, sys
text = sys.stdin.buffer.read().decode("utf-8", "ignore")
json.dump({"body": text}, sys.stdout)'
}

# The token goes through standard input: on a login node everybody sees command lines. curl has a
# home and an environment of its own, so that no setting of the user takes part.
comment() {  # URL LOG
    local token=${NEARMETAL_TOKEN-}
    unset NEARMETAL_TOKEN LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV
    PATH=/usr/local/bin:/usr/bin:/bin
    case "$token" in
        "") fail 1 "no comment: set the secret NEARMETAL_TOKEN to a token that may comment" ;;
        *[!A-Za-z0-9._~+/=-]*) fail 1 "no comment: NEARMETAL_TOKEN holds a character of no token" ;;
    esac
    check_verdict
    home=$(mktemp -d)
    trap 'rm -rf "$home"' EXIT
    write_comment "$2" > "$home/comment.json"
    printf 'header = "Authorization: Bearer %s"' "$token" |
        env -i HOME="$home" PATH="$PATH" \
            https_proxy="${https_proxy-}" no_proxy="${no_proxy-}" \
            curl --disable --config - --fail --silent --show-error --output /dev/null \
            ${NEARMETAL_CA_FILE:+--cacert "$NEARMETAL_CA_FILE"} \
            --header 'Content-Type: application/json' --data "@$home/comment.json" \
            --globoff --proto '=http,https' --url "$1" ||
        fail 1 "no comment: $1 did not take it"
}

in_checkout() {  # FUNCTION
    cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
    "$1"
}

main() {
    case "${1-} $#" in
        "--help 1" | "-h 1") usage ;;
        "install 1") in_checkout install_nearmetal ;;
        "measure 1") in_checkout measure ;;
        "measure-change 1") in_checkout measure_change ;;
        "judge 1") in_checkout judge ;;
        "comment 3") comment "$2" "$3" ;;
        *)
            usage >&2
            fail 3 "no step, or not its arguments: $*"
            ;;
    esac
}

main "$@"
