# The nodes that do not start a program, with why: a line `NODE WHY` for each. Input: the names of all nodes (part=hosts), the lines of
# those that are known already (part=known), and output and errors of starts.sh under `srun --label` (part=out, part=err).
part == "hosts" { host[++hosts] = $1; next }
part == "known" { known[$1] = $0; next }
!tasks { for (i = 1; i <= hosts; i++) if (!(host[i] in known)) node[tasks++] = host[i] }
{
    from = ""
    if (match($0, /^ *[0-9]+: /)) {
        from = node[$1 + 0]
        $0 = substr($0, RLENGTH + 1)
    }
}
part == "out" && !sub(/^# nearmetal /, "") { next } # of a prolog or a library
part == "out" && $1 == "started" { started[$2] }
part == "out" && $1 == "refused" {
    name = $2
    sub(/^refused +[^ ]+ +/, "")
    why[name] = $0
}
part == "err" && match($0, /failed on node [^: ]+: /) {
    name = substr($0, RSTART + 15, RLENGTH - 17)
    why[name] = substr($0, RSTART + RLENGTH)
    broken = 1  # this ends the step on all nodes, so that silence says nothing
}
part == "err" && from != "" && NF { said[from] = $0 }
part == "err" && /^srun: error: [^ ]+: tasks? [0-9]+: / {
    name = $3
    sub(/:$/, "", name)
    sub(/^srun: error: [^ ]+ tasks? [0-9]+: /, "")
    ended[name] = $0
}
function reason(name) {
    if (name in why) return why[name]
    if (name in said) return said[name]
    return name in ended ? ended[name] : "it said nothing"
}
END {
    for (i = 1; i <= hosts; i++) {
        name = host[i]
        if (name in known) print known[name]
        else if (broken ? name in why : !(name in started)) print name, reason(name)
    }
}
