# Was a repeat disturbed? From provenance.sh's counters before and after it, and from what the ranks say at their end.
#   awk -f disturbed.awk -v repeat=N -v limits='stolen=0.02 ...' part=before FILE part=after FILE part=output FILE
# Prints `repeat N HOST QUANTITY NUMBER [DETAIL]` for each quantity that is known, and `disturbed N HOST QUANTITY NUMBER LIMIT
# [DETAIL]` for each above its limit. Exit status: 0 if none is, 1 if one is.
# What each quantity is: reframe_checks/references/disturbance.yaml. nearmetal/checks/disturbance.py reads the output.

part == "output" && /^# nearmetal repeat: / { split("", ran); split("", wait); split("", jvm); split("", involuntary); split("", unsaid) }
part == "output" && /^# nearmetal usage: / {
    split("", said)
    for (i = 4; i <= NF; i++) {
        equal = index($i, "=")
        said[substr($i, 1, equal - 1)] = substr($i, equal + 1)
    }
    host = said["host"]
    sub(/\..*/, "", host)
    ran[host] += said["cpu"]
    if ("jvm_wait" in said) jvm[host] = 1
    one = jvm[host] ? said["jvm_wait"] : said["wait"]
    wait[host] += one
    involuntary[host] += said["involuntary"]
    if (one < 0) unsaid[host] = 1
}
part != "output" && NF > 1 {
    equal = index($2, "=")
    key = $1 SUBSEP substr($2, 1, equal - 1)
    value = substr($0, index($0, "=") + 1)
    if (part == "before") before[key] = value
    else {
        after[key] = value
        hosts[$1] = 1
    }
}

function grown(host, name) { # -1: not known
    if (!((host SUBSEP name) in before) || !((host SUBSEP name) in after)) return -1
    return after[host, name] - before[host, name]
}

function say(host, name, number, detail) {
    printf "repeat %d %s %s %.6g%s\n", repeat, host, name, number, detail == "" ? "" : " " detail
    if (name in limit && number > limit[name]) {
        printf "disturbed %d %s %s %.6g %.6g%s\n", repeat, host, name, number, limit[name], detail == "" ? "" : " " detail
        bad = 1
    }
}

function say_growth(host, name, counter,    number) {
    number = grown(host, counter)
    if (number >= 0) say(host, name, number)
}

function foreign(host, ticks, busy,    key, part_of, word, number, sum, most, names, i, used, name, count) {
    for (key in after) {
        split(key, part_of, SUBSEP)
        if (part_of[1] != host || part_of[2] !~ /^process\./) continue
        split(after[key], word, " ")
        number = word[2]
        if (key in before) { split(before[key], word, " "); number -= word[2] }
        if (number <= 0) continue
        name = part_of[2]
        sub(/^process\./, "", name)
        used[name] = number
        sum += number
    }
    for (i = 0; i < 3; i++) { # the three that used most
        most = ""
        for (name in used) if (most == "" || used[name] > used[most]) most = name
        if (most == "") break
        names = names (names == "" ? "" : ",") most
        delete used[most]
    }
    if (sum > busy) sum = busy # a parent also takes over the time of children that ended meanwhile
    say(host, "foreign", sum / ticks, names)
}

END {
    n = split(limits, word, " ")
    for (i = 1; i <= n; i++) {
        split(word[i], pair, "=")
        limit[pair[1]] = pair[2]
    }
    for (host in hosts) {
        elapsed = grown(host, "clock.uptime")
        busy = grown(host, "count.cpu.busy"); idle = grown(host, "count.cpu.idle"); steal = grown(host, "count.cpu.steal")
        ticks = busy + idle + steal
        if (ticks > 0) {
            say(host, "stolen", steal / ticks)
            foreign(host, ticks, busy)
        }
        pressure = grown(host, "count.pressure_us")
        if (elapsed > 0 && pressure >= 0) say(host, "pressure", pressure / 1e6 / elapsed)
        interrupts = grown(host, "count.interrupts")
        if (elapsed > 0 && interrupts >= 0) say(host, "interrupts", interrupts / elapsed)
        say_growth(host, "throttled", "count.throttled")
        say_growth(host, "nic_errors", "count.nic_errors")
        say_growth(host, "nic_drops", "count.nic_drops")
        say_growth(host, "ib_errors", "count.ib_errors")
        say_growth(host, "numa_misses", "count.numa_miss")
        say_growth(host, "refused_large_pages", "count.thp_fault_fallback")
        say_growth(host, "major_faults", "count.pgmajfault")
        sent = grown(host, "count.tcp.OutSegs")
        # Of a hundred segments, one that is sent again says nothing.
        if (sent >= 1000) say(host, "retransmitted", grown(host, "count.tcp.RetransSegs") / sent)
        short = host
        sub(/\..*/, "", short)
        # In less than a second, the start of all ranks at once is most of the waiting.
        if (ran[short] >= 1 && !unsaid[short]) {
            part_waited = wait[short] / (ran[short] + wait[short])
            if (jvm[short]) say(host, "waited_jvm", part_waited)
            else say(host, "waited", part_waited)
        }
        if (ran[short] > 0) say(host, "involuntary", involuntary[short] / ran[short])
    }
    exit bad
}
