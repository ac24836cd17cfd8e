#!/bin/sh
# Starts a task's JVM with a program of mpiJava 1.2, without daemons: `srun ... sh java/launch/jvm.sh [--NAME=VALUE ...] MAIN
# [ARGUMENT ...]`. What it cannot do it says in one sentence and ends with 2.
set -eu
# Threads are as many as the task has cores, which srun-mpj asks for.
library=express device=niodev ranks=${SLURM_CPUS_PER_TASK:-1} heap=auto gc=auto pages=default
ports=18000-24991 hosts='{}' patience=60 classes=classes launch=launch.classes warm_up=30
buffers=heap

fail() { echo "mpj: $*" >&2; exit 2; }

# A whole number in a range, or the end.
whole() { # name value least most
    case $2 in '' | *[!0-9]* | ??????????*) fail "--$1=$2 is no whole number from $3 to $4." ;; esac
    [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] || fail "--$1=$2 is no whole number from $3 to $4."
}

while [ $# -gt 0 ]; do
    value=${1#*=}
    case $1 in
        --library=express | --library=fastmpj | --library=native) library=$value ;;
        --device=niodev | --device=threads) device=$value ;;
        --ranks=*) ranks=$value ;;
        --heap=*) heap=$value ;;
        --gc=auto | --gc=serial | --gc=parallel | --gc=g1) gc=$value ;;
        --pages=default | --pages=transparent | --pages=explicit) pages=$value ;;
        --ports=*) ports=$value ;;
        --hosts=*) hosts=$value ;;
        --patience=*) patience=$value ;;
        --classes=*) classes=$value ;;
        --launch=*) launch=$value ;;
        --warm-up=*) warm_up=$value ;;
        --buffers=heap | --buffers=off_heap) buffers=$value ;;
        -*) fail "$1 is no option of jvm.sh, or has a value that it does not know." ;;
        *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || fail "the name of the class to run is expected."

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
command -v "$java" > /dev/null || fail "there is no $java on $(uname -n): load the module of a JDK (17 or newer)" \
    "or set JAVA_HOME in this environment's env_vars."
[ "$library" != native ] || device=mpi
[ -d "$launch" ] || fail "$launch, where the launcher's classes are to be, is no directory: was the check built?"

case $library-$device in
    express-*) name=MPJ_HOME home=${MPJ_HOME:-} jars='mpj smpdev xdev mpjbuf mpiExp mpi mpjdev' ;;
    fastmpj-niodev) name=FMPJ_HOME home=${FMPJ_HOME:-} jars='runtime mpj xxdev jhwloc niodev' ;;
    fastmpj-threads) name=FMPJ_HOME home=${FMPJ_HOME:-} jars='runtime mpj jhwloc smdev-shared smdev-unshared' ;;
    native-*) name='' home=. jars='' ;;
esac
[ -n "$home" ] || fail "$name is not set: load the library's module, or give its path in this environment's env_vars."
for jar in $jars; do
    [ -r "$home/lib/$jar.jar" ] || fail "$name=$home has no lib/$jar.jar: it is to be the directory of" \
        "${name%_HOME}'s installation."
done

# The job's part of the ports: sixteen for the launcher and, with FastMPJ, two more for each rank of all nodes. Another job on the
# node with as many ranks has the same part only if its number differs by a multiple of the parts.
job=${SLURM_JOB_ID:-}
case $job in '' | *[!0-9]*) fail "this is no step of a Slurm job (no SLURM_JOB_ID): start it with srun." ;; esac
slot=16
[ "$library-$device" != fastmpj-niodev ] || { whole SLURM_NTASKS "${SLURM_NTASKS:-}" 1 65536 && slot=$((16 + 2 * SLURM_NTASKS)); }
first=${ports%-*} last=${ports#*-}
whole ports "$first" 1024 65520
whole ports "$last" $((first + 15)) 65535
[ $((last - first + 1)) -ge $slot ] || fail "--ports=$ports are $((last - first + 1)) ports, but FastMPJ takes two for each of" \
    "$SLURM_NTASKS ranks beside the launcher's 16, $slot: give more in the partition's extras (java_ports)."
port=$((first + job % ((last - first + 1) / slot) * slot))
whole patience "$patience" 1 86400
whole ranks "$ranks" 1 65536

# What this JVM has of the allocation's memory, in MB: all of the node's where Slurm does not share it out.
if [ "${SLURM_MEM_PER_NODE:-0}" -gt 0 ]; then
    memory=$SLURM_MEM_PER_NODE
elif [ "${SLURM_MEM_PER_CPU:-0}" -gt 0 ]; then
    memory=$((SLURM_MEM_PER_CPU * ${SLURM_CPUS_ON_NODE:-1}))
else
    memory=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
fi
# The most JVMs on a node, as "2(x3),1" says it.
most=$(echo "${SLURM_STEP_TASKS_PER_NODE:-1}" | sed 's/(x[0-9]*)//g' | tr , '\n' | sort -n | tail -n 1)
share=$((memory / most))
# Half, as the library keeps what it sends outside of the heap.
[ "$heap" != auto ] || heap=$((share / 2))
whole heap "$heap" 16 99999999
[ "$heap" -le "$share" ] || fail "a heap of $heap MB is above the $share MB that a JVM has of this allocation ($memory MB a" \
    "node, $most JVMs on it): ask for more memory or give a smaller java_heap_mb."
# mpj-native sends long arrays without a copy where the collector is G1. For the others, threads that collect in parallel cost more
# than they give where there is little to collect, or one core.
[ "$gc$library" != autonative ] || gc=g1
[ "$gc" != auto ] || { [ "$heap" -ge 1792 ] && [ "$(nproc)" -gt 1 ] && gc=parallel || gc=serial; }

case $warm_up in *[!0-9.]* | '' | *.*.* | .) fail "--warm-up=$warm_up is no number of seconds." ;; esac

jvm="-Xms${heap}m -Xmx${heap}m -XX:+AlwaysPreTouch -XX:-UsePerfData -Dnearmetal.warm_up=$warm_up"
# Loops that can stop for G1 are slower where they are short, as in CG. No other collector has them.
case $gc in
    serial) jvm="$jvm -XX:+UseSerialGC" ;;
    parallel) jvm="$jvm -XX:+UseParallelGC" ;;
    g1) jvm="$jvm -XX:+UseG1GC -XX:-UseCountedLoopSafepoints" ;;
esac
case $pages in transparent) jvm="$jvm -XX:+UseTransparentHugePages" ;; explicit) jvm="$jvm -XX:+UseLargePages" ;; esac
# A program's class for vectors is there where the JDK that compiled it has their module. This node's may lack it.
if [ -f "$classes/$1Vectors.class" ] && "$java" --describe-module jdk.incubator.vector > /dev/null 2>&1; then
    jvm="$jvm --add-modules jdk.incubator.vector"
fi
told=
[ "$buffers" = heap ] || { jvm="$jvm -Dnearmetal.buffers=$buffers" told=" buffers=$buffers"; }
# Once a launch, by the rank that is always there.
[ "${SLURM_PROCID:-0}" != 0 ] || echo "# nearmetal jvm: library=$library device=$device heap=${heap}MB gc=$gc pages=$pages$told"

lib=$home/lib
case $library-$device in
    express-*)
        # Upstream brings log4j; Debian has it elsewhere, and its package does not say so.
        log4j=
        for candidate in "${MPJ_LOG4J:-}" "$lib"/log4j*.jar /usr/share/java/log4j-1.2.jar; do
            [ -r "$candidate" ] && { log4j=$candidate; break; }
        done
        [ -n "$log4j" ] || fail "MPJ Express finds no log4j 1.2 in $lib or /usr/share/java: give its path as MPJ_LOG4J in" \
            "this environment's env_vars."
        ;;
esac
# shellcheck disable=SC2086 # $jvm is a list of options
case $library-$device in
    native-mpi)
        # MPI as our programs in C have it, which call it from one thread.
        exec "$java" $jvm -Dmpi.threads=single --enable-native-access=ALL-UNNAMED -cp "$launch:$classes" "$@" ;;
    express-niodev)
        exec "$java" $jvm -Dnearmetal.device=niodev -Dnearmetal.port="$port" -Dnearmetal.ports=16 "-Dnearmetal.hosts=$hosts" \
            -Dnearmetal.patience="$patience" -cp "$launch:$lib/mpj.jar:$log4j:$classes" launch.NearmetalRun "$@" ;;
    express-threads)
        exec "$java" $jvm -Dnearmetal.device=threads -Dnearmetal.ranks="$ranks" -Dnearmetal.patience="$patience" \
            "-Dnearmetal.app=$classes:$lib/mpi.jar:$lib/mpjdev.jar" \
            -cp "$launch:$lib/smpdev.jar:$lib/xdev.jar:$lib/mpjbuf.jar:$lib/mpiExp.jar:$log4j" launch.NearmetalRun "$@" ;;
    fastmpj-niodev)
        # Its buffers are outside of the heap, 64 MB and more a rank; the JVM allows as much as the heap where nothing is said.
        direct=$((heap > 128 ? heap : 128))
        exec "$java" $jvm -XX:MaxDirectMemorySize=${direct}m -Dnearmetal.library=fastmpj -Dnearmetal.device=niodev \
            -Dnearmetal.port="$port" -Dnearmetal.ports=16 "-Dnearmetal.hosts=$hosts" -Dnearmetal.patience="$patience" \
            "-Dmpj.rank=$SLURM_PROCID" "-Dmpj.nprocs=$SLURM_NTASKS" -Dxxdev.dev=niodev -Dxxdev.psl=65536 \
            -Dxxdev.port=$((port + 16)) "-Djava.library.path=$lib" \
            -cp "$launch:$lib/runtime.jar:$lib/mpj.jar:$lib/xxdev.jar:$lib/jhwloc.jar:$lib/niodev.jar:$classes" \
            launch.NearmetalRun "$@" ;;
    fastmpj-threads)
        # What fmpjrun would start, which ends with 0 whatever happens. User classes come by a property, not by the class path.
        exec "$java" $jvm -Dnearmetal.library=fastmpj -Dnearmetal.device=threads -Dnearmetal.patience="$patience" \
            -Dmpj.rank=0 "-Dmpj.nprocs=$ranks" -Dxxdev.dev=smdev -Dxxdev.psl=65536 "-Duser.classpath=$classes" \
            "-Djava.library.path=$lib" -cp "$launch:$lib/runtime.jar:$lib/jhwloc.jar:$lib/smdev-shared.jar" \
            launch.NearmetalRun "$@" ;;
esac
