#!/bin/sh
# Prints a time; ends without `done` in the second run of a session (COUNTER names a file).
count=$(cat "$COUNTER" 2>/dev/null || echo 0)
echo $((count + 1)) >"$COUNTER"
echo "took: 1.0$count"
[ "$count" = 1 ] || echo 'done'
