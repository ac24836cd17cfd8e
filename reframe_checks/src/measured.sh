#!/bin/sh
# Launches of a check of others (nearmetal/checks/measured.py), each in a directory of its own: `repeat.NUMBER`, with links to
# what the check's directory holds. The job script defines `one_launch`. It sets `stage`, the job's directory, and `there`, the
# directory in which it would launch. `number` is that of repeats.sh.

# shellcheck disable=SC2154 # of repeats.sh and of the job script
launch() {
    directory=$stage/repeat.$number
    mkdir "$directory"
    for file in "$there"/* "$there"/.[!.]*; do
        case ${file##*/} in
            repeat.* | "$output" | "$errors" | provenance.before | evidence.* | disturbed.out | '*' | '.[!.]*') ;;
            *) ln -s "$file" "$directory" ;;
        esac
    done
    (cd "$directory" && one_launch) > "$directory/$output" 2> "$directory/$errors" || echo "$number" >> launches.failed
    cat "$directory/$output"
    cat "$directory/$errors" >&2
}

measured() { # REPEATS SPARE LIMITS OUTPUT ERRORS
    output=$4 errors=$5
    # shellcheck source=reframe_checks/src/repeats.sh disable=SC1091
    . ./repeats.sh
    repeats "$1" "$2" "$3" "$output"
    [ ! -e launches.failed ]
}
