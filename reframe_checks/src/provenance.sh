#!/bin/sh
# What this node is: one line a fact, `# nearmetal node: <node> <key>=<value>`, all lines in one write. A prolog or a library may
# print lines beside them. The last line, `lines`, has the number of our lines.
#   srun --ntasks-per-node=1 sh provenance.sh            every fact
#   srun --ntasks-per-node=1 sh provenance.sh counters   only the counters, in some ten ms
# A fact that can't be had is `unknown`.  Needs no root.  nearmetal/checks/provenance.py reads what this prints.
#
# Interfaces and their counters come from /proc/net/dev, which is always that of our own network namespace; /sys shows
# the one of whoever mounted it, so it is asked only where its interface index is the one that `ip` reports.
# The shell reads /proc and /sys itself: a fork for each fact would take longer than everything else here.

# A launcher that starts all processes of a job: of a node's, the first one speaks. In the order of the lines: Open MPI,
# MPICH and Intel MPI, Cray PALS, Flux, JSM of LSF.
for local_rank in "${OMPI_COMM_WORLD_LOCAL_RANK:-}" "${MPI_LOCALRANKID:-}" "${PALS_LOCAL_RANKID:-}" \
    "${FLUX_TASK_LOCAL_ID:-}" "${JSM_NAMESPACE_LOCAL_RANK:-}"; do
    [ "${local_rank:-0}" = 0 ] || exit 0
    launched=${launched-}$local_rank
done

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
    out="$out# nearmetal node: $node $1=${2:-unknown}$newline"
    lines=$((lines + 1))
}

file_fact() { # KEY FILE
    first_line "$2"
    fact "$1" "$value"
}

count_list() { # FILE such as .../online, holding `0-3,8`: the number of its members into $value
    first_line "$1"
    count_members
}

count_members() { # of the list in $value, such as `0-3,8`: their number into $value
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

number_of() { # FILE: the number in it into $value; Slingshot's counters have their time behind it, `123@1700000000.5`
    first_line "$1"
    value=${value%%@*}
    case $value in '' | *[!0-9]*) value=unknown ;; esac
}

port_counters() { # DEVICE PORT DIRECTORY
    value=unknown
    # Bytes that it sent; each driver has one of these (nearmetal/cluster/nics.yaml). The directory of EFA's has changed.
    for file in telemetry/hni_sts_tx_ok_octets hw_counters/tx_bytes ../../hw_counters/tx_bytes; do
        [ "$value" != unknown ] || number_of "$3/$file"
    done
    bytes=$value
    number_of "$3/counters/port_xmit_data" # in words of four bytes
    [ "$value" = unknown ] || bytes=$((value * 4))
    for file in ip4OutOctets ip6OutOctets; do # of Intel's Ethernet
        number_of "$3/hw_counters/$file"
        [ "$value" = unknown ] || bytes=$((${bytes%unknown} + value))
    done
    fact "ib.$1.$2.xmit_bytes" "$bytes"
    # A software device counts packets alone.
    [ ! -e "$3/hw_counters/sent_pkts" ] || file_fact "ib.$1.$2.xmit_packets" "$3/hw_counters/sent_pkts"
}

ports() { # FUNCTION: call it with device, port and directory of each InfiniBand, RoCE, EFA or Slingshot port
    for directory in /sys/class/infiniband/*/ports/*; do
        [ -d "$directory" ] || continue
        device=${directory#/sys/class/infiniband/}
        "$1" "${device%%/*}" "${directory##*/}" "$directory"
    done
    for directory in /sys/class/cxi/*/device; do
        [ -d "$directory" ] || continue
        device=${directory#/sys/class/cxi/}
        "$1" "${device%%/*}" 1 "$directory"
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
    case $value,$cpu_model in
        kvm,*TCG*) value=tcg ;; # KVM of a machine whose CPU TCG emulates
        qemu,*) value=tcg ;;
        kvm,* | none,*) ;;
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
    cpu_model='' cpu_flags='' siblings='' cores='' threads_per_core='' microcode='' implementer=''
    while read -r line && [ -n "$line" ]; do
        case $line in
            'model name'*:* | cpu[!\ a-zA-Z]*:*) cpu_model=${line#*: } ;; # `cpu : POWER9`
            flags*:* | Features*:*) cpu_flags="${line#*:} " ;;
            siblings*:*) siblings=${line#*: } ;;
            'cpu cores'*:*) cores=${line#*: } ;;
            microcode*:*) microcode=${line#*: } ;;
            'CPU implementer'*:*) implementer=${line#*: } ;;
            'CPU part'*:*) part=${line#*: } ;;
        esac
    done < /proc/cpuinfo
    case $cpu_flags in
        *' avx512f '*) vector=avx512 ;;
        *' fma '*) vector=fma ;;
        *' avx '*) vector=avx ;;
        *' sse2 '*) vector=sse2 ;;
        *' sve '*) # a setting that the administrator may lower, in bytes
            value=$(cat /proc/sys/abi/sve_default_vector_length 2>/dev/null) # of which dash would read one digit
            case $value in 16 | 32 | 64) vector=sve$((8 * value)) ;; *) vector=asimd ;; esac ;;
        *' asimd '*) vector=asimd ;;
        *) vector='' ;;
    esac
    case $siblings$cores in
        '' | *[!0-9]*) ;;
        *) [ "${cores:-0}" -eq 0 ] || threads_per_core=$((siblings / cores)) ;;
    esac
    if [ -z "$threads_per_core" ]; then # ARM and POWER
        value=$(cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list 2>/dev/null) # dash would read nothing
        value=${value:-unknown}
        count_members
        threads_per_core=$value
    fi
    [ -n "$cpu_model" ] || arm_processor
}

arm_processor() { # into $cpu_model
    cpu_model=$(lscpu 2>/dev/null | sed -n 's/^ *Model name: *//p')
    cpu_model=${cpu_model%%"$newline"*}
    # lscpu of Amazon Linux 2023 and RHEL 8 knows no names of newer cores.
    case $cpu_model in '' | -) cpu_model="${implementer:+$implementer part $part}" ;; esac
}

nested_paging() { # how the hypervisor translates the addresses of this guest, into $value; $hypervisor and $accelerator are set
    case $hypervisor,$accelerator,$cpu_flags in
        none,*) value=none ;;
        *,tcg,*) value=emulated ;; # the CPU with its page tables is a program
        kvm,*' ept '*) value=ept ;; # KVM offers guests an EPT of their own only where it uses EPT itself
        kvm,*' npt '*) value=npt ;;
        *) value=unknown ;;
    esac
}

kvm_paging() { # what this kernel's own KVM would give to guests, into $value
    value=none
    for parameter in kvm_intel/parameters/ept kvm_amd/parameters/npt; do
        [ -e "/sys/module/$parameter" ] || continue
        first_line "/sys/module/$parameter"
        case $value in
            [Yy1]) value=${parameter##*/} ;;
            [Nn0]) value=shadow ;;
        esac
        return
    done
    [ -d /sys/module ] || value=unknown
}

vcpu_pinning() { # whether the hypervisor pins virtual CPUs to cores, into $value; a guest knows it only if its firmware says so
    case $hypervisor,$dmi in
        none,*) value=none ;;
        *'vCPUs pinned'*) value=pinned ;;
        *'vCPUs not pinned'*) value='not pinned' ;;
        *) value=unknown ;;
    esac
}

host_pages() { # pages of the host that back a guest's memory, into $value, as vcpu_pinning
    case $hypervisor,$dmi in
        none,*) value=none ;;
        *'lab guest: '*' small pages'*) value=small ;;
        *'lab guest: '*' huge pages'*) value=large ;;
        *) value=unknown ;;
    esac
}

page_kb() { # of an ordinary page, into $value
    value=
    { while read -r key number _ && [ -z "$value" ]; do
        case $key in KernelPageSize:) value=$number ;; esac
    done < /proc/self/smaps; } 2>/dev/null
}

ksm() { # whether this kernel merges equal pages (ksmd), and whether pages are merged, into $value
    first_line /sys/kernel/mm/ksm/pages_sharing
    sharing=$value
    first_line /sys/kernel/mm/ksm/run
    case $value in
        0 | 2) value=off ;;
        1) value=on ;;
        *) value=unknown; return ;;
    esac
    case $sharing in 0 | *[!0-9]*) ;; *) value="$value, pages shared" ;; esac
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

memory_modules() { # the rate of all modules together in MB/s (MT/s x bits / 8), into $value
    # The firmware's tables are root's alone. udev of systemd 248 and later reads them once and keeps what they say of memory
    # where everybody may read it, each module's properties in any order.
    modules=' '
    while IFS='=' read -r key value; do
        module=${key#E:MEMORY_DEVICE_}
        property=${module#*_} module=${module%%_*}
        case $key,$property in E:MEMORY_DEVICE_*,SIZE | E:MEMORY_DEVICE_*,*SPEED_MTS | E:MEMORY_DEVICE_*,DATA_WIDTH) ;; *) continue ;; esac
        case $module,$value in *[!0-9,]* | ,* | *,) continue ;; esac
        case $property in
            SIZE) modules="$modules$module " ;;
            CONFIGURED_SPEED_MTS | SPEED_MTS | DATA_WIDTH) eval "module_${module}_$property=$value" ;;
        esac
    done 2>/dev/null < /run/udev/data/+dmi:id
    rate=0
    for module in $modules; do
        eval "value=\$((\${module_${module}_CONFIGURED_SPEED_MTS:-\${module_${module}_SPEED_MTS:-0}} * \${module_${module}_DATA_WIDTH:-0} / 8))"
        [ "$value" -gt 0 ] || { rate=0; break; } # a module that does not tell
        rate=$((rate + value))
    done
    value=${rate#0}
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

qdisc_of() { # the queue of what an interface sends, into $qdisc; $link is set
    qdisc=
    case $link in
        *' qdisc '*) qdisc=${link#* qdisc }; qdisc=${qdisc%% *} ;;
    esac
}

firmware_of() { # NAME, of a NIC: into $firmware
    firmware=$(ethtool -i "$1" 2>/dev/null)
    case $firmware in
        *'firmware-version: '[!"$newline"]*)
            firmware=${firmware#*firmware-version: }
            firmware=${firmware%%"$newline"*} ;;
        *) firmware= ;;
    esac
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
    for file in "$sys"/device/cxi/*; do # Slingshot counts what the kernel sends and what programs send past it
        [ ! -e "$file" ] || lower="$lower,${file##*/}/1"
    done
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
    qdisc_of
    fact "nic.$1.qdisc" "$qdisc"
    if [ -e "$sys/device/driver" ]; then
        cards=$((cards + 1))
        firmware_of "$1"
        fact "nic.$1.firmware" "$firmware"
    fi
    if [ -e "$sys" ]; then fact "nic.$1.lower" "${lower:-none}"; else fact "nic.$1.lower" unknown; fi
    interface_counters "$@"
}

port_facts() { # DEVICE PORT DIRECTORY
    port_counters "$@"
    first_line "$3/state"
    case $value in unknown | *ACTIVE) active_ports=$((active_ports + 1)) ;; esac
    if [ -d "$3/telemetry" ]; then # Slingshot, whose interface tells the rest
        fact "ib.$1.$2.link_layer" Slingshot
        for key in rate fw netdev; do fact "ib.$1.$2.$key" unknown; done
        return
    fi
    file_fact "ib.$1.$2.rate" "$3/rate"
    file_fact "ib.$1.$2.fw" "$3/../../fw_ver"
    file_fact "ib.$1.$2.link_layer" "$3/link_layer"
    file_fact "ib.$1.$2.netdev" "$3/gid_attrs/ndevs/0" # InfiniBand has none
}

# Dash reads one digit of a number below /proc/sys, so one grep reads all of them.
kernel_settings() {
    tcp_rmem='' tcp_wmem='' rmem_max='' wmem_max='' numa_balancing=''
    while IFS=: read -r file value; do
        # shellcheck disable=SC2086 # three numbers, with tabs between them
        set -- $value
        case ${file##*/} in
            tcp_rmem) tcp_rmem=$* ;;
            tcp_wmem) tcp_wmem=$* ;;
            rmem_max) rmem_max=$* ;;
            wmem_max) wmem_max=$* ;;
            numa_balancing) numa_balancing=$* ;;
        esac
    done <<EOF
$(cd /proc/sys 2>/dev/null &&
    grep -sH . net/ipv4/tcp_rmem net/ipv4/tcp_wmem net/core/rmem_max net/core/wmem_max kernel/numa_balancing)
EOF
    file_fact tcp_congestion /proc/sys/net/ipv4/tcp_congestion_control
    fact tcp_rmem "$tcp_rmem"
    fact tcp_wmem "$tcp_wmem"
    fact rmem_max "$rmem_max"
    fact wmem_max "$wmem_max"
    fact numa_balancing "$numa_balancing"
}

# Processors that the job may use. What started us is not bound to some of them, as we may be.
cpus_allowed() { # into $value
    value=unknown
    { while read -r key list; do
        case $key in Cpus_allowed_list:) value=$list ;; esac
    done < "/proc/$PPID/status"; } 2>/dev/null
    count_members
}

# Variables of the environment whose names match, each with its value, into $value. Of no others is a value recorded, as it may be
# a secret. Control characters become `?`, and long values are cut.
variables() { # PATTERN EXCEPTIONS
    value=$(env -0 | tr '\n\0' '?\n' | sort | awk -v names="^($1)" -v except="^($2)" '
        $0 !~ names || $0 ~ except { next }
        {
            gsub(/[^ -~]/, "?")
            if (length($0) > 300) $0 = substr($0, 1, 300) "..."
            text = text (text == "" ? "" : "; ") $0
        }
        END { print substr(text, 1, 8000) }') 2>/dev/null
}

# What changes what an MPI library does, and what changes what any program does. What a launcher sets for its ranks is none: some of
# it differs from job to job.
job_settings() {
    variables 'OMPI_|PMIX_MCA_|PRTE_MCA_|MPIR_CVAR_|UCX_|FI_|I_MPI_|MPICH_|MV2_|PSM2_|PSM3_|NCCL_' \
        "OMPI_MCA_(orte_|prte_|ess=|ess_|pmix=|initial_wdir=|num_procs=|app_num=|shmem_RUNTIME_)|\
OMPI_(APP_CTX|ARGV|COMMAND|COMM_WORLD|FILE_LOCATION|FIRST_RANKS|NUM_APP|PARENT|UNIVERSE)|\
(PRTE|PMIX)_MCA_(prte_|ess_|psec=|gds=|schizo)|I_MPI_(HYDRA_|JOB_|INFO_|MPIRUN)|MV2_COMM_WORLD_"
    fact mpi_settings "${value:-none}"
    variables 'OMP_|KMP_|MALLOC_|GLIBC_TUNABLES=|LD_PRELOAD=' none
    fact program_settings "${value:-none}"
}

node_facts() {
    file_fact kernel /proc/sys/kernel/osrelease
    first_line /sys/class/dmi/id/sys_vendor
    dmi=$value
    first_line /sys/class/dmi/id/product_name
    [ "$dmi $value" = 'unknown unknown' ] && dmi=unknown || dmi="$dmi $value"
    processor
    hypervisor
    hypervisor=$value
    fact hypervisor "$value"
    accelerator
    accelerator=$value
    fact accelerator "$value"
    container
    fact container "$value"
    fact dmi "$dmi"
    fact cpu_model "$cpu_model"
    count_list /sys/devices/system/cpu/online
    fact cpus "$value"
    cpus_allowed
    fact cpus_allowed "$value"
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
    nested_paging
    fact nested_paging "$value"
    kvm_paging
    fact kvm_paging "$value"
    vcpu_pinning
    fact vcpu_pinning "$value"
    host_pages
    fact host_pages "$value"
    page_kb
    fact page_kb "$value"
    ksm
    fact ksm "$value"
    memory
    memory_modules
    fact memory_modules_mbps "$value"
    mitigations
    fact microcode "$microcode"
    file_fact bios /sys/class/dmi/id/bios_version
    file_fact clock_source /sys/devices/system/clocksource/clocksource0/current_clocksource
    kernel_settings
    job_settings
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
# which a job gets here. A command's name may hold anything, also a line's end and parentheses. `0 kernel <ticks>` is of all
# threads of the kernel, where they are seen.
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
                if (int(field[7] / 2097152) % 2) { # the kernel has this flag on its threads
                    seen = 1
                    kernel += field[12] + field[13]
                    continue
                }
                ticks[pid] = field[12] + field[13] + field[14] + field[15]
            }
            if (seen) printf "0 kernel %.0f threads\n", kernel
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

# Processor time of this job on this node, as its cgroup counts it, in us. Only where a step of the job keeps the cgroup from
# one launch to the next: without one, the count would start again.
job_time() {
    { while IFS=: read -r _ controllers path; do
        case $path in */job_[0-9]*) ;; *) continue ;; esac
        job=${path#*/job_}
        job=${path%%/job_*}/job_${job%%/*}
        case ,$controllers, in
            *,cpuacct,*) job=/sys/fs/cgroup/cpuacct$job ;;
            ,,) if [ -d /sys/fs/cgroup/unified ]; then job=/sys/fs/cgroup/unified$job; else job=/sys/fs/cgroup$job; fi ;;
            *) continue ;;
        esac
        [ -d "$job/step_extern" ] || [ -d "$job/step_batch" ] || continue
        first_line "$job/cpuacct.usage" # in ns
        case $value in *[!0-9]*) first_line "$job/cpu.stat"; value=${value#usage_usec } ;; *) value=$((value / 1000)) ;; esac
        case $value in *[!0-9]*) continue ;; esac
        fact count.job_us "$value"
        return
    done < /proc/self/cgroup; } 2>/dev/null
}

process_counters() {
    first_line /proc/uptime
    fact clock.uptime "${value%% *}"
    job_time
    own=$(id -u)
    while read -r key value; do
        [ -z "$key" ] || fact "$key" "$value"
    done <<EOF
$(disturbance_counters
    used_processors | while read -r pid uid ticks name; do
        [ "$uid" = "$own" ] && in_this_job "$pid" || echo "$uid $ticks $name"
    done | awk '$1 == "kernel" { printf "count.cpu.threads %s\n", $2; next }
        { number[$1 "." $3]++; sum[$1 "." $3] += $2 }
        END { for (key in sum) printf "process.%s %d %d\n", key, number[key], sum[key] }')
EOF
}

# What shows whether the job had the node alone, as sums since the node started: `<key> <number>` a line. What the node does
# not show has no line. (mawk prints no integer above 2^31 but by %.0f.)
disturbance_counters() {
    rdma=
    for file in /sys/class/infiniband/* /sys/class/cxi/*; do [ ! -e "$file" ] || rdma=1; done
    awk -v rdma="$rdma" '
        function add(key, value) { printf "count.%s %.0f\n", key, value }
        function first(file,    line) { line = ""; getline line < file; close(file); return line }
        function total(pattern, key, mean,    command, path, value, seen, sum) {
            command = "ls -d " pattern " 2>/dev/null"
            while ((command | getline path) > 0) {
                value = first(path)
                sub(/@.*/, "", value) # the time of a counter of Slingshot
                if (value ~ /^[0-9]+$/) { sum += value; seen++ }
            }
            close(command)
            if (seen) add(key, mean ? sum / seen : sum)
        }
        function ports(key, counters,    counter, i, n, pattern) { # of all InfiniBand, RoCE, EFA and Slingshot ports
            n = split(counters, counter, " ")
            for (i = 1; i <= n; i++)
                pattern = pattern (counter[i] ~ /^telemetry/ ? " /sys/class/cxi/*/device/" : " /sys/class/infiniband/*/ports/*/") counter[i]
            total(pattern, key)
        }
        function pressure(what, key,    line) {
            while ((getline line < ("/proc/pressure/" what)) > 0)
                if (line ~ /^some /) { sub(/.*total=/, "", line); add(key, line) }
            close("/proc/pressure/" what)
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
                    add("cpu.interrupts", word[7] + word[8]) # in busy as well
                } else if (word[1] ~ /^cpu/ && word[9] > 0) add("steal." substr(word[1], 4), word[9])
                else if (word[1] == "intr") add("interrupts", word[2])
            }
            pressure("cpu", "pressure_us")
            pressure("memory", "memory_pressure_us")
            pressure("io", "io_pressure_us")
            total("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count", "throttled")
            total("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", "frequency_khz", "mean")
            while ((getline line < "/proc/meminfo") > 0) {
                split(line, word, " ")
                kb[word[1]] = word[2]
            }
            if ("MemAvailable:" in kb) add("memory_used_ppm", 1e6 * (1 - kb["MemAvailable:"] / kb["MemTotal:"]))
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
            if (rdma) {
                # Drivers name their counters as they like: nearmetal/cluster/nics.yaml.
                ports("ib_errors", "counters/symbol_error counters/link_downed counters/link_error_recovery " \
                    "counters/port_rcv_errors counters/local_link_integrity_errors counters/excessive_buffer_overrun_errors " \
                    "hw_counters/rx_roce_errors hw_counters/tx_roce_errors")
                ports("ib_discards", "counters/port_xmit_discards hw_counters/rx_drops hw_counters/rx_roce_discards " \
                    "hw_counters/tx_roce_discards hw_counters/ip4InDiscards hw_counters/ip6InDiscards telemetry/hni_llr_tx_discard")
                ports("rdma_again", "hw_counters/out_of_sequence hw_counters/packet_seq_err hw_counters/local_ack_timeout_err " \
                    "hw_counters/rnr_nak_retry_err hw_counters/retrans_pkts hw_counters/to_retransmits hw_counters/seq_err_naks_rcvd " \
                    "hw_counters/rnr_naks_rcvd hw_counters/tcpRetransSegs hw_counters/RetransSegs hw_counters/RcResend " \
                    "hw_counters/RcTimeOut hw_counters/RcSeqNak hw_counters/RnrNak telemetry/hni_llr_tx_replay_event " \
                    "telemetry/pct_retry_srb_requests telemetry/pct_spt_timeouts telemetry/pct_sct_timeouts")
            }
            while ((getline line < "/proc/vmstat") > 0) {
                split(line, word, " ")
                if (word[1] ~ /^(numa_miss|numa_other|pgmajfault|thp_fault_fallback)$/) add(word[1], word[2])
            }
        }'
}

process_facts() {
    if ! command -v awk > /dev/null; then value=unknown
    elif [ -r /proc/1/stat ]; then value=all
    else value='our own alone (hidepid)'; fi
    fact process_view "$value"
    # Nodes with one boot ID are parts of one machine. Only the machine's own list of processes is whole.
    file_fact machine.boot /proc/sys/kernel/random/boot_id
    case $(readlink /proc/self/ns/pid) in
        'pid:[4026531836]') fact machine.part whole ;; # the kernel's number of it
        *) fact machine.part container ;;
    esac
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

# What Slurm calls this node, into $node. A launcher other than srun may pass on the name of another node.
node_name() { # HOST
    node=${SLURMD_NODENAME:-}
    [ "${node%%.*}" != "${1%%.*}" ] || return 0
    case $launched,$SLURM_PROCID,$node in
        ,[0-9]*,?*) ;; # srun started us
        *) node=${1%%.*} ;;
    esac
}

out='' lines=0 lo_tx='' lo_rx=''
first_line /proc/sys/kernel/hostname
node_name "$value"
# Programs report this name of the host. With it, nearmetal/checks/provenance.py and disturbed.awk find the node's name.
[ -n "${1:-}" ] || fact machine.host "$value"
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
        cards=0 active_ports=0
        interfaces interface_facts
        ports port_facts
        # What programs reach past the kernel has an interface besides.
        [ "$active_ports" = 0 ] || cards=$active_ports
        fact nics "$cards" ;;
    *)
        echo "usage: sh provenance.sh [counters]" >&2
        exit 2 ;;
esac
fact lo.tx_bytes "$lo_tx"
fact lo.rx_bytes "$lo_rx"
fact lines "$((lines + 1))"
printf '%s' "$out" | dd obs=65536 2>/dev/null # bash writes line by line
