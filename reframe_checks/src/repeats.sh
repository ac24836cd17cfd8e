#!/bin/sh
# Evidence of a job's launches, and their repeats. The job defines `launch` (one repeat) and `snapshot` (prints counters of its nodes), and calls
#   repeats WANTED SPARE LIMITS OUTPUT
# A repeat that disturbed.awk finds disturbed runs again, at most SPARE times in all. OUTPUT is the job's standard output.
# A snapshot that fails is taken once more. If some of it is missing then, disturbed.awk says so.

evidence() { # NUMBER LIMITS OUTPUT BEFORE AFTER: judge one launch by two snapshots. 0: undisturbed, 1: disturbed.
    awk -v repeat="$1" -v limits="$2" -f disturbed.awk part=facts provenance.before part=before "$4" part=after "$5" \
        part=output "$3" >> disturbed.out
}

repeats() {
    wanted=$1 spare=$2 limits=$3 output=$4 number=0 kept=0
    : > disturbed.out
    cp provenance.before evidence.0
    while [ "$kept" -lt "$wanted" ]; do
        number=$((number + 1))
        echo "# nearmetal repeat: $number"
        launch
        snapshot > "evidence.$number" || snapshot > "evidence.$number" || true
        status=0
        evidence "$number" "$limits" "$output" "evidence.$((number - 1))" "evidence.$number" || status=$?
        case $status in
            0) kept=$((kept + 1)) ;;
            1)
                if [ "$spare" -gt 0 ]; then
                    spare=$((spare - 1))
                    echo "again $number" >> disturbed.out
                else
                    kept=$((kept + 1))
                fi ;;
            *) exit "$status" ;;
        esac
    done
    echo "# nearmetal repeats: $number"
    cp "evidence.$number" provenance.after
}
