#!/bin/sh
# Repeats of a job's launches. The job defines `launch` (one repeat) and `snapshot` (prints counters of its nodes), and calls
#   repeats WANTED SPARE LIMITS OUTPUT
# A repeat that disturbed.awk finds disturbed runs again, at most SPARE times in all. OUTPUT is the job's standard output.

repeats() {
    wanted=$1 spare=$2 limits=$3 output=$4 number=0 kept=0
    : > disturbed.out
    cp provenance.before evidence.0
    while [ "$kept" -lt "$wanted" ]; do
        number=$((number + 1))
        echo "# nearmetal repeat: $number"
        launch
        snapshot > "evidence.$number"
        status=0
        awk -v repeat="$number" -v limits="$limits" -f disturbed.awk part=before "evidence.$((number - 1))" \
            part=after "evidence.$number" part=output "$output" >> disturbed.out || status=$?
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
