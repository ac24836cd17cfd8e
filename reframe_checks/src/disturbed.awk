# Was a repeat disturbed? From provenance.sh's facts and its counters before and after it, and from what the ranks say at
# their end.
#   awk -f disturbed.awk -v repeat=N -v limits='stolen=0.02 waited=0.1=NAME ...' part=facts provenance.before part=before FILE part=after FILE \
#       part=output FILE
# Prints `repeat N HOST QUANTITY NUMBER [DETAIL]` for each quantity that is known, `disturbed N HOST QUANTITY NUMBER LIMIT
# [DETAIL]` for each above its limit, and `unknown N HOST WORDS` for each node of the facts whose counters were lost.
# The environment variable NAME lifts a limit, unless it is 0, no or false.
# Exit status: 0 if none is above its limit, 1 if one is.
# What each quantity is: reframe_checks/references/disturbance.yaml. nearmetal/checks/disturbance.py reads the output.

part == "output" && /^# nearmetal (repeat|duet): / {
    split("", cpu); split("", own); split("", wait); split("", jvm); split("", involuntary); split("", worst)
    lines = whole_lines = launches = 0
}
part == "output" && /^# nearmetal program: / { launches++ }
part == "output" && /^# nearmetal usage: / {
    split("", said)
    for (i = 4; i <= NF; i++) {
        equal = index($i, "=")
        said[substr($i, 1, equal - 1)] = substr($i, equal + 1)
    }
    host = said["host"] in node ? node[said["host"]] : said["host"]
    cpu[host] += said["cpu"]
    involuntary[host] += said["involuntary"]
    lines++
    if ("all" in said) { # with the start of the process
        own[host] += said["all"]
        whole_lines++
    }
    if ("jvm_wait" in said) {
        jvm[host] = 1
        wait[host] += said["jvm_wait"]
        if (said["jvm_wait"] < 0) wait[host] = -1e9
    } else if (said["wait"] >= 0 && said["cpu"] + said["wait"] >= 1) {
        # In less than a second, the start of all ranks at once is most of the waiting.
        one = said["wait"] / (said["cpu"] + said["wait"])
        if (said["worst"] > one) one = said["worst"] # of its threads
        if (!(host in worst) || one > worst[host]) worst[host] = one
    }
}
part != "output" && sub(/^# nearmetal node: /, "") { # all other lines are of a prolog or a library
    equal = index($2, "=")
    name = substr($2, 1, equal - 1)
    key = $1 SUBSEP name
    value = substr($0, index($0, "=") + 1)
    printed[part, $1]++
    if (part == "facts") {
        facts[key] = value
        expected[$1] = 1
        if (name == "machine.host") node[value] = $1
    } else if (part == "before") before[key] = value
    else {
        after[key] = value
        hosts[$1] = 1
    }
}

function grown(host, name) { # -1: not known
    if (!((host SUBSEP name) in before) || !((host SUBSEP name) in after)) return -1
    return after[host, name] - before[host, name]
}

function lacking(host, snapshot,    i) { # the first key that a whole snapshot has and this one has not
    for (i = 1; i <= needed; i++) if (!((host SUBSEP need[i]) in snapshot)) return need[i]
    return ""
}

function lost(host,    name, key, part_of) { # words on what of its evidence is missing; "": nothing
    if (name = lacking(host, before)) return name " is missing before it"
    if (name = lacking(host, after)) return name " is missing after it"
    if (printed["before", host] != before[host, "lines"]) return "lines are missing before it"
    if (printed["after", host] != after[host, "lines"]) return "lines are missing after it"
    for (key in before) {
        split(key, part_of, SUBSEP)
        if (part_of[1] == host && part_of[2] ~ /^count\./ && !(key in after)) return part_of[2] " is missing after it"
    }
    if (grown(host, "clock.uptime") <= 0 || processor_seconds(host) <= 0) return "its clock did not advance"
    return ""
}

function processor_seconds(host) {
    return (grown(host, "count.cpu.busy") + grown(host, "count.cpu.idle") + grown(host, "count.cpu.steal")) / TICKS
}

function say(host, name, number, detail, unjudged) {
    printf "repeat %d %s %s %.6g%s\n", repeat, host, name, number, detail == "" ? "" : " " detail
    if (name in limit && number > limit[name] && !unjudged) {
        printf "disturbed %d %s %s %.6g %.6g%s\n", repeat, host, name, number, limit[name], detail == "" ? "" : " " detail
        bad = 1
    }
}

function say_growth(host, name, counter,    number) {
    number = grown(host, counter)
    if (number >= 0) say(host, name, number)
}

function say_time(host, name, counter, elapsed,    us) { # as a part of the time
    us = grown(host, counter)
    if (elapsed > 0 && us >= 0) say(host, name, us / 1e6 / elapsed)
}

function stolen(host, elapsed,    steal, wanted, key, part_of, number, most) {
    steal = grown(host, "count.cpu.steal") / TICKS
    wanted = steal + grown(host, "count.cpu.busy") / TICKS
    # Of less than a second, a few ticks are a large part.
    say(host, "stolen", wanted > 0 ? steal / wanted : 0, "", wanted < 1)
    for (key in after) {
        split(key, part_of, SUBSEP)
        if (part_of[1] != host || part_of[2] !~ /^count\.steal\./) continue
        number = after[key] - before[key] # before the first steal there is no such line
        if (number > most) most = number
    }
    say(host, "stolen_worst", most / TICKS / elapsed, "", elapsed < 1)
}

# Seconds of processes that are not the job's, also into visible[host].
function foreign(host, elapsed,    key, part_of, word, number, sum, most, names, i, used, name, busy) {
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
    busy = grown(host, "count.cpu.busy")
    if (sum > busy) sum = busy # a parent also takes over the time of children that ended meanwhile
    visible[host] = sum / TICKS
    # Where a node shows no foreign process, none that is seen is no sign that there is none.
    if (facts[host, "process_view"] !~ /^our own/) {
        say(host, "foreign", visible[host] / processor_seconds(host), names)
        # In a short repeat, a daemon's one burst of work is a large part.
        say(host, "foreign_processors", visible[host] / elapsed, names, visible[host] < 0.5)
    }
}

# Seconds that the job used on a node; -1: not known. Its cgroup counts all of them. Ranks that say all of their own leave out
# the launcher's. A node of the job without a rank used none.
function of_the_job(host,    number) {
    number = grown(host, "count.job_us")
    if (number >= 0) return number / 1e6
    if (!lines || whole_lines < lines) return -1
    return own[host] + 0
}

# What no process accounts for. Nodes that are parts of one machine show the same processors: they are judged as one.
function unexplained(host,    boot, other, number, mine, kernel, busy, elapsed, shared) {
    boot = facts[host, "machine.boot"]
    busy = grown(host, "count.cpu.busy") / TICKS
    elapsed = grown(host, "clock.uptime")
    say(host, "busy", busy / elapsed)
    shared = facts[host, "machine.part"] != "whole"
    kernel = grown(host, "count.cpu.interrupts") / TICKS
    number = grown(host, "count.cpu.threads") / TICKS # not every node shows the kernel's threads
    if (kernel < 0) return # the counters of an older version
    if (number > 0) kernel += number
    # Processor time is sampled, so that a fiftieth of it may be an error.
    number = busy * 0.98 - kernel
    for (other in expected) {
        if (other != host && (boot !~ /-/ || facts[other, "machine.boot"] != boot)) continue
        if (other != host) shared = 1
        mine = of_the_job(other)
        if (mine < 0 || other in unknown || !(other in hosts)) return
        # The launcher, the start of a container and the snapshot itself take up to a second.
        number -= mine + visible[other] + (launches > 1 ? launches : 1)
    }
    if (number < 0) number = 0
    if (shared) say(host, "unexplained_shared", number / elapsed)
    else say(host, "unexplained", number / elapsed)
}

END {
    TICKS = 100 # a second, in /proc/stat on every architecture of today
    n = split(limits, word, " ")
    for (i = 1; i <= n; i++) {
        split(word[i], pair, "=")
        lifts = pair[3] == "" ? "" : tolower(ENVIRON[pair[3]])
        if (lifts ~ /^(0|no?|f(alse)?)?$/) limit[pair[1]] = pair[2]
    }
    # provenance.sh prints the last of them last: a snapshot without it was cut off.
    needed = split("clock.uptime count.cpu.busy count.cpu.idle count.cpu.steal lo.rx_bytes lines", need, " ")
    for (host in hosts) expected[host] = 1
    for (host in expected) {
        words = lost(host)
        if (words != "") {
            unknown[host] = 1
            printf "unknown %d %s %s\n", repeat, host, words
        } else foreign(host, grown(host, "clock.uptime"))
    }
    for (host in expected) {
        if (host in worst) say(host, "waited", worst[host])
        if (host in jvm && cpu[host] >= 1 && wait[host] >= 0)
            say(host, "waited_jvm", wait[host] / (cpu[host] + wait[host]))
        if (cpu[host] > 0) say(host, "involuntary", involuntary[host] / cpu[host])
        if (host in unknown) continue
        elapsed = grown(host, "clock.uptime")
        stolen(host, elapsed)
        unexplained(host)
        say_time(host, "pressure", "count.pressure_us", elapsed)
        say_time(host, "memory_pressure", "count.memory_pressure_us", elapsed)
        say_time(host, "io_pressure", "count.io_pressure_us", elapsed)
        interrupts = grown(host, "count.interrupts")
        if (interrupts >= 0) say(host, "interrupts", interrupts / elapsed)
        if ((host SUBSEP "count.frequency_khz") in after)
            say(host, "frequency_mhz", (before[host, "count.frequency_khz"] + after[host, "count.frequency_khz"]) / 2000)
        if ((host SUBSEP "count.memory_used_ppm") in before)
            say(host, "memory_used", before[host, "count.memory_used_ppm"] / 1e6)
        say_growth(host, "throttled", "count.throttled")
        say_growth(host, "nic_errors", "count.nic_errors")
        say_growth(host, "nic_drops", "count.nic_drops")
        say_growth(host, "ib_errors", "count.ib_errors")
        say_growth(host, "ib_discards", "count.ib_discards")
        say_growth(host, "rdma_again", "count.rdma_again")
        say_growth(host, "numa_misses", "count.numa_miss")
        say_growth(host, "remote_pages", "count.numa_other")
        say_growth(host, "refused_large_pages", "count.thp_fault_fallback")
        say_growth(host, "major_faults", "count.pgmajfault")
        sent = grown(host, "count.tcp.OutSegs")
        # Of a hundred segments, one that is sent again says nothing.
        if (sent >= 1000) say(host, "retransmitted", grown(host, "count.tcp.RetransSegs") / sent)
    }
    exit bad
}
