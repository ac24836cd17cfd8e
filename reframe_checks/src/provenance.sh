#!/bin/sh
# What this node is: one line a fact, `<hostname> <key>=<value>`, all lines in one write.
#   srun --ntasks-per-node=1 sh provenance.sh            every fact
#   srun --ntasks-per-node=1 sh provenance.sh counters   only the counters, in some ten ms
# A fact that can't be had is `unknown`.  Needs no root.  reframe_checks/provenance.py reads what this prints.
#
# Interfaces and their counters come from /proc/net/dev, which is always that of our own network namespace; /sys shows
# the one of whoever mounted it, so it is asked only where its interface index is the one that `ip` reports.
# The shell reads /proc and /sys itself: a fork for each fact would take longer than everything else here.

LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL PATH
newline='
'

first_line() { # FILE: its first line into $value, `unknown` if it can't be read or is empty
    value=
    { read -r value < "$1"; } 2>/dev/null
    [ -n "$value" ] || value=unknown
}

fact() { # KEY VALUE
    out="$out$host $1=${2:-unknown}$newline"
}

file_fact() { # KEY FILE
    first_line "$2"
    fact "$1" "$value"
}

count_list() { # FILE such as .../online, holding `0-3,8`: the number of its members into $value
    first_line "$1"
    [ "$value" != unknown ] || return 0
    list=$value,
    value=0
    while [ -n "$list" ]; do
        range=${list%%,*}
        list=${list#*,}
        value=$((value + ${range#*-} - ${range%-*} + 1))
    done
}

interfaces() { # FUNCTION: call it with name, received and transmitted bytes of each interface
    while read -r line; do
        case $line in *[0-9a-zA-Z]:*[0-9]*) ;; *) continue ;; esac # not the two lines of headings
        nic=${line%%:*}
        # shellcheck disable=SC2086 # sixteen numbers
        set -- "$1" ${line#*:}
        "$1" "$nic" "$2" "${10}"
    done < /proc/net/dev
}

interface_counters() { # NAME RECEIVED TRANSMITTED
    case $1 in
        lo) lo_tx=$3 lo_rx=$2 ;;
        *) fact "nic.$1.tx_bytes" "$3"; fact "nic.$1.rx_bytes" "$2" ;;
    esac
}

port_counters() { # DEVICE PORT DIRECTORY
    first_line "$3/counters/port_xmit_data" # in words of four bytes
    case $value in
        *[!0-9]*) # EFA has no such counter
            first_line "$3/hw_counters/tx_bytes"
            [ "$value" != unknown ] || first_line "$3/../../hw_counters/tx_bytes" ;;
        *) value=$((value * 4)) ;;
    esac
    fact "ib.$1.$2.xmit_bytes" "$value"
    # A software device counts packets alone.
    [ ! -e "$3/hw_counters/sent_pkts" ] || file_fact "ib.$1.$2.xmit_packets" "$3/hw_counters/sent_pkts"
}

ports() { # FUNCTION: call it with device, port and directory of each InfiniBand, RoCE or EFA port
    for directory in /sys/class/infiniband/*/ports/*; do
        [ -d "$directory" ] || continue
        device=${directory#/sys/class/infiniband/}
        "$1" "${device%%/*}" "${directory##*/}" "$directory"
    done
}

large_pages() { # those that the kernel gave to programs since it started, in bytes
    first_line /sys/kernel/mm/transparent_hugepage/hpage_pmd_size
    size=$value pages=unknown
    while read -r key value; do
        case $key in thp_fault_alloc | thp_collapse_alloc) pages=$((${pages%unknown} + value)) ;; esac
    done < /proc/vmstat
    case $size$pages in
        *unknown*) fact vm.large_page_bytes unknown ;;
        *) fact vm.large_page_bytes $((size * pages)) ;;
    esac
}

hypervisor() { # into $value, in the words of systemd-detect-virt
    value=$(systemd-detect-virt --vm 2>/dev/null)
    [ -z "$value" ] || return 0
    case $dmi in
        *.metal*) value=none ;; # Amazon's bare metal says `Amazon EC2` too
        *VMware*) value=vmware ;;
        *VirtualBox* | *innotek*) value=oracle ;;
        *'Amazon EC2'*) value=amazon ;;
        *'Google Compute Engine'*) value=google ;;
        *Microsoft*'Virtual Machine'*) value=microsoft ;;
        *Xen*) value=xen ;;
        *QEMU* | *KVM* | *OpenStack*) case $cpu_model in *TCG*) value=qemu ;; *) value=kvm ;; esac ;;
        *)  first_line /sys/hypervisor/type
            [ "$value" = unknown ] || return 0
            case $cpu_flags in
                *' hypervisor '*) value=vm-other ;;
                *' fpu '*) value=none ;; # x86, whose hypervisors set that flag
                *) value=unknown ;;
            esac ;;
    esac
}

accelerator() { # into $value: what runs a guest's instructions, from the word for its hypervisor; TCG emulates the CPU too
    case $value in
        qemu) value=tcg ;;
        kvm | none) ;;
        *) value=unknown ;;
    esac
}

container() { # into $value
    if [ -n "$APPTAINER_CONTAINER$SINGULARITY_CONTAINER" ]; then value=apptainer; return; fi
    value=$(systemd-detect-virt --container 2>/dev/null)
    [ -z "$value" ] || return 0
    if [ -e /run/.containerenv ]; then value=podman
    elif [ -e /.dockerenv ]; then value=docker
    elif [ -r /run/systemd/container ]; then first_line /run/systemd/container
    else value=none; fi
}

processor() { # from the first processor of /proc/cpuinfo into $cpu_model, $cpu_flags, $vector and $threads_per_core
    cpu_model='' cpu_flags='' siblings='' cores='' threads_per_core=''
    while read -r line && [ -n "$line" ]; do
        case $line in
            'model name'*:* | cpu[!\ a-zA-Z]*:*) cpu_model=${line#*: } ;; # `cpu : POWER9`
            flags*:* | Features*:*) cpu_flags="${line#*:} " ;;
            siblings*:*) siblings=${line#*: } ;;
            'cpu cores'*:*) cores=${line#*: } ;;
        esac
    done < /proc/cpuinfo
    case $cpu_flags in
        *' avx512f '*) vector=avx512 ;;
        *' fma '*) vector=fma ;;
        *' avx '*) vector=avx ;;
        *' sse2 '*) vector=sse2 ;;
        *' asimd '*) vector=asimd ;;
        *) vector='' ;;
    esac
    case $siblings$cores in
        '' | *[!0-9]*) ;;
        *) [ "${cores:-0}" -eq 0 ] || threads_per_core=$((siblings / cores)) ;;
    esac
    if [ -z "$cpu_model" ]; then # ARM
        cpu_model=$(lscpu 2>/dev/null)
        case $cpu_model in
            *'Model name:'*) cpu_model=${cpu_model#*Model name:}; cpu_model=${cpu_model%%"$newline"*} ;;
            *) cpu_model= ;;
        esac
        cpu_model=${cpu_model#"${cpu_model%%[! ]*}"}
    fi
}

memory() {
    mem_total='' huge_pages=''
    while [ -z "$huge_pages" ] && read -r key number _; do
        case $key in
            MemTotal:) mem_total=$number ;;
            HugePages_Total:) huge_pages=$number ;; # of /proc/sys/vm/nr_hugepages dash would read only one digit
        esac
    done < /proc/meminfo
    fact mem_total_kb "$mem_total"
    fact huge_pages "$huge_pages"
}

mitigations() {
    vulnerable=0 mitigated=0 seen=
    for file in /sys/devices/system/cpu/vulnerabilities/*; do
        first_line "$file"
        case ${value#KVM: } in
            Vulnerable*) vulnerable=$((vulnerable + 1)) ;;
            Mitigation*) mitigated=$((mitigated + 1)) ;;
        esac
        [ "$value" = unknown ] || seen=yes
    done
    fact mitigations "${seen:+vulnerable:$vulnerable mitigated:$mitigated}"
}

driver_of() { # NAME: into $driver; $link and $sys are set
    driver=
    case $link in
        *'\    macvlan '*mode\ * | *'\    macvtap '*mode\ *)
            driver=${link##*'\    macv'}
            mode=${driver#*mode }
            driver="macv${driver%% *} ${mode%%[ \\]*}" ;;
        *'\    tun type tap '*) driver=tap ;;
        *'\    tun type tun '*) driver=tun ;;
        *) for kind in veth bridge bond vlan ipvlan vxlan dummy ifb team; do
               case $link in *"\\    $kind "*) driver=$kind; return ;; esac
           done ;;
    esac
    [ -z "$driver" ] || return 0
    if [ -e "$sys/device/driver" ]; then
        driver=$(readlink "$sys/device/driver")
        driver=${driver##*/}
    elif [ -e "$sys/tun_flags" ]; then
        first_line "$sys/tun_flags"
        if [ $((value & 2)) -ne 0 ]; then driver=tap; else driver=tun; fi
    fi
    [ -z "$driver" ] || return 0
    driver=$(ethtool -i "$1" 2>/dev/null)
    case $driver in
        'driver: tun'*'bus-info: tap'*) driver=tap ;;
        'driver: '?*) driver=${driver#driver: }; driver=${driver%%"$newline"*} ;;
        *)  driver=
            for kind in bridge bonding; do [ ! -d "$sys/$kind" ] || driver=$kind; done ;;
    esac
}

offloads_of() { # NAME: into $offloads
    features=$(ethtool -k "$1" 2>/dev/null)
    offloads=
    for offload in tso:tcp-segmentation gso:generic-segmentation gro:generic-receive lro:large-receive; do
        case $features in
            *"${offload#*:}-offload: on"*) offloads="$offloads ${offload%%:*}:on" ;;
            *"${offload#*:}-offload: off"*) offloads="$offloads ${offload%%:*}:off" ;;
        esac
    done
    offloads=${offloads# }
}

lower_of() { # the interfaces or ports that this one sends through (bond, VLAN, bridge, IPoIB), into $lower
    lower=
    for file in "$sys"/lower_*; do
        [ ! -e "$file" ] || lower="$lower,${file##*/lower_}"
    done
    first_line "$sys/type"
    if [ "$value" = 32 ]; then # IPoIB: an InfiniBand port carries it
        first_line "$sys/dev_port"
        for file in "$sys"/device/infiniband/*; do
            [ ! -e "$file" ] || [ "$value" = unknown ] || lower="$lower,${file##*/}/$((value + 1))"
        done
    fi
    lower=${lower#,}
}

interface_facts() { # NAME RECEIVED TRANSMITTED
    [ "$1" != lo ] || { interface_counters "$@"; return; }
    sys=/sys/class/net/$1
    link=${links#*": $1"[:@]}
    if [ "$link" != "$links" ]; then
        link=${link%%"$newline"*}' '
        index=${links%%": $1"[:@]*}
        first_line "$sys/ifindex"
        [ "$value" = "${index##*"$newline"}" ] || sys=/nonexistent # another namespace's /sys
        case $link in *[\<,]LOWER_UP[,\>]*) ;; *) return 0 ;; esac
        mtu=${link#* mtu }
        mtu=${mtu%% *}
    else # no `ip`
        link=
        first_line "$sys/carrier"
        [ "$value" = 1 ] || [ ! -e "$sys" ] || return 0
        first_line "$sys/mtu"
        mtu=$value
    fi
    driver_of "$1"
    offloads_of "$1"
    lower_of
    fact "nic.$1.driver" "$driver"
    fact "nic.$1.mtu" "$mtu"
    first_line "$sys/speed" # Mb/s
    fact "nic.$1.speed" "${value#-1}"
    fact "nic.$1.offloads" "$offloads"
    if [ -e "$sys" ]; then fact "nic.$1.lower" "${lower:-none}"; else fact "nic.$1.lower" unknown; fi
    interface_counters "$@"
}

port_facts() { # DEVICE PORT DIRECTORY
    port_counters "$@"
    file_fact "ib.$1.$2.rate" "$3/rate"
    file_fact "ib.$1.$2.fw" "$3/../../fw_ver"
    file_fact "ib.$1.$2.link_layer" "$3/link_layer"
    file_fact "ib.$1.$2.netdev" "$3/gid_attrs/ndevs/0" # InfiniBand has none
}

node_facts() {
    file_fact kernel /proc/sys/kernel/osrelease
    first_line /sys/class/dmi/id/sys_vendor
    dmi=$value
    first_line /sys/class/dmi/id/product_name
    [ "$dmi $value" = 'unknown unknown' ] && dmi=unknown || dmi="$dmi $value"
    processor
    hypervisor
    fact hypervisor "$value"
    accelerator
    fact accelerator "$value"
    container
    fact container "$value"
    fact dmi "$dmi"
    fact cpu_model "$cpu_model"
    count_list /sys/devices/system/cpu/online
    fact cpus "$value"
    fact threads_per_core "$threads_per_core"
    fact vector "$vector" # the widest instructions
    file_fact clock_khz /sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq
    count_list /sys/devices/system/node/online
    fact numa_nodes "$value"
    if [ -d /sys/devices/system/cpu ] && [ ! -d /sys/devices/system/cpu/cpu0/cpufreq ]; then
        fact governor 'not exposed'
    else
        file_fact governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
    fi
    file_fact smt /sys/devices/system/cpu/smt/control
    first_line /sys/kernel/mm/transparent_hugepage/enabled
    value=${value#*\[}
    fact thp "${value%%\]*}"
    memory
    mitigations
}

in_this_job() { # PID, of our user: whether the job is the one that we belong to
    case $newline$(tr '\0' '\n' 2>/dev/null < "/proc/$1/environ")$newline in
        *"${newline}SLURM_JOB_ID=${SLURM_JOB_ID:-none}$newline"*) ;;
        *"${newline}SLURM_HET_JOB_ID=${SLURM_HET_JOB_ID:-none}$newline"*) ;;
        *) return 1 ;;
    esac
}

# Processes that have used a processor and belong neither to the kernel nor to what runs this job: `<pid> <uid> <ticks>
# <command>`. The ticks are also those of children that ended. Left out are our own ancestors, our session, and the daemons by
# which a job gets here. A command's name may hold anything, also a line's end and parentheses.
used_processors() {
    awk -v self=$$ -v own="$(id -u)" '
        function uid_of(pid,    file, line, found) {
            file = "/proc/" pid "/status"
            found = ""
            while ((getline line < file) > 0) if (line ~ /^Uid:/) { split(line, word, " "); found = word[2] }
            close(file)
            return found
        }
        BEGIN {
            for (i = 1; i < ARGC; i++) {
                text = ""
                while ((getline line < ARGV[i]) > 0) text = text line " "
                close(ARGV[i])
                rest = text
                if (!sub(/.*\) /, "", rest)) continue # it has ended
                split(rest, field, " ")
                pid = text + 0
                name[pid] = substr(text, index(text, "(") + 1, length(text) - length(rest) - index(text, "(") - 2)
                parent[pid] = field[2]
                session[pid] = field[4]
                if (int(field[7] / 2097152) % 2) continue # the kernel has this flag on its threads
                ticks[pid] = field[12] + field[13] + field[14] + field[15]
            }
            for (pid = self; pid in parent && !(pid in ours); pid = parent[pid]) ours[pid] = 1
            for (pid in ticks) {
                if (!ticks[pid] || pid in ours || session[pid] == session[self]) continue
                uid = uid_of(pid)
                if (uid == "") continue
                if (uid != own && name[pid] ~ /^(slurm(d|stepd|ctld|dbd)|munged|systemd.*|\(sd-pam\)|init|tini|sshd.*|dbus.*)$/) continue
                gsub(/[^A-Za-z0-9_.:+@%,-]/, "_", name[pid])
                print pid, uid, ticks[pid], name[pid]
            }
        }' /proc/[0-9]*/stat 2>/dev/null
}

process_counters() {
    first_line /proc/uptime
    fact clock.uptime "${value%% *}"
    own=$(id -u)
    while read -r key value; do
        [ -z "$key" ] || fact "$key" "$value"
    done <<EOF
$(disturbance_counters
    used_processors | while read -r pid uid ticks name; do
        [ "$uid" = "$own" ] && in_this_job "$pid" || echo "$uid $ticks $name"
    done | awk '{ number[$1 "." $3]++; sum[$1 "." $3] += $2 }
        END { for (key in sum) printf "process.%s %d %d\n", key, number[key], sum[key] }')
EOF
}

# What shows whether the job had the node alone, as sums since the node started: `<key> <number>` a line. What the node does
# not show has no line. (mawk prints no integer above 2^31 but by %.0f.)
disturbance_counters() {
    awk '
        function add(key, value) { printf "count.%s %.0f\n", key, value }
        function first(file,    line) { line = ""; getline line < file; close(file); return line }
        function total(pattern, key,    command, path, value, seen, sum) {
            command = "ls -d " pattern " 2>/dev/null"
            while ((command | getline path) > 0) {
                value = first(path)
                if (value ~ /^[0-9]+$/) { sum += value; seen = 1 }
            }
            close(command)
            if (seen) add(key, sum)
        }
        function protocol(file, wanted,    line, name, value, i, n) { # a line of names, a line of values
            while ((getline line < file) > 0) {
                n = split(line, name, " ")
                if ((getline line < file) <= 0) break
                split(line, value, " ")
                for (i = 2; i <= n; i++) if (index(wanted, " " name[1] name[i] " ")) add("tcp." name[i], value[i])
            }
            close(file)
        }
        BEGIN {
            while ((getline line < "/proc/stat") > 0) {
                split(line, word, " ")
                if (word[1] == "cpu") {
                    add("cpu.busy", word[2] + word[3] + word[4] + word[7] + word[8])
                    add("cpu.idle", word[5] + word[6])
                    add("cpu.steal", word[9])
                } else if (word[1] == "intr") add("interrupts", word[2])
            }
            while ((getline line < "/proc/pressure/cpu") > 0)
                if (line ~ /^some /) { sub(/.*total=/, "", line); add("pressure_us", line) }
            total("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count", "throttled")
            total("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", "frequency_khz")
            protocol("/proc/net/snmp", " Tcp:RetransSegs Tcp:OutSegs ")
            while ((getline line < "/proc/net/dev") > 0) {
                if (line !~ /:/ || line ~ /^ *lo:/) continue
                sub(/^[^:]*:/, "", line)
                split(line, word, " ")
                errors += word[3] + word[11]
                drops += word[4] + word[12]
            }
            add("nic_errors", errors)
            add("nic_drops", drops)
            n = split("symbol_error link_downed port_rcv_errors link_error_recovery", counter, " ")
            for (i = 1; i <= n; i++)
                pattern = pattern " /sys/class/infiniband/*/ports/*/counters/" counter[i]
            total(pattern, "ib_errors")
            while ((getline line < "/proc/vmstat") > 0) {
                split(line, word, " ")
                if (word[1] ~ /^(numa_miss|pgmajfault|thp_fault_fallback)$/) add(word[1], word[2])
            }
        }'
}

process_facts() {
    if ! command -v awk > /dev/null; then value=unknown
    elif [ -r /proc/1/stat ]; then value=all
    else value='our own alone (hidepid)'; fi
    fact process_view "$value"
    full=
    while read -r _ _ _ free _ where; do
        case $free in *[!0-9]* | '') continue ;; esac
        case " $full " in *" $where "*) continue ;; esac
        [ "$free" -ge 1024 ] || full="$full $where"
    done <<EOF
$(df -kP / /tmp /dev/shm /var/tmp 2>/dev/null)
EOF
    full=${full# }
    fact full_file_systems "${full:-none}"
}

out='' lo_tx='' lo_rx=''
first_line /proc/sys/kernel/hostname
host=$value
case $1 in
    counters)
        process_counters
        large_pages
        interfaces interface_counters
        ports port_counters ;;
    '')
        links=$newline$(ip -o -d link show 2>/dev/null)
        node_facts
        process_facts
        process_counters
        large_pages
        interfaces interface_facts
        ports port_facts ;;
    *)
        echo "usage: sh provenance.sh [counters]" >&2
        exit 2 ;;
esac
fact lo.tx_bytes "$lo_tx"
fact lo.rx_bytes "$lo_rx"
printf '%s' "$out" | dd obs=65536 2>/dev/null # bash writes line by line
