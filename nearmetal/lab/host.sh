#!/bin/sh
# host.sh [LIST...]: checks that this host can run the lab and has the packages of further lists beside
# this file. On Debian and Ubuntu, with root or sudo, it prints and installs missing packages.
# Elsewhere it prints each missing package or kernel feature and changes nothing.
# Exit codes: 0 ready; 1 something is missing, and a message says what provides it.
set -eu
here=$(dirname "$0")

refuse() { echo "$1" >&2; exit 1; }

# The checkout's directory is checked before anything is installed.
checkout=$(cd "$here/../.." && pwd)
case $checkout in
    *[[:space:]:]*) refuse "$checkout: Python and compilers would split a path with a space or colon: move the checkout." ;;
esac
case ,$(findmnt --noheadings --output OPTIONS --target "$checkout" 2> /dev/null), in
    *,ro,*)
        refuse "$checkout is on a file system mounted read-only, but the virtual environment is made there: move the checkout." ;;
    *,noexec,*)
        refuse "$checkout is on a file system mounted noexec, but programs run from there: move the checkout." ;;
esac
[ -w "$checkout" ] ||
    refuse "$checkout is not writable for $(id -un), but the virtual environment is made there: clone it yourself."
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null ||
        refuse "The lab needs root, and there is no sudo here: run this as root, or install sudo. Nothing was changed."
    [ -t 0 ] && ask='sudo -v' || ask='sudo -n true'
    $ask || refuse "The lab needs root, and sudo does not let $(id -un): run this as root. Nothing was changed."
fi

any() { # whether one of the commands a,b,c exists
    for one in $(echo "$1" | tr , ' '); do command -v "$one" && return; done
    return 1
}

missing='' packages=''
while IFS='|' read -r what package why; do
    # shellcheck disable=SC2086,SC2116 # word splitting trims the columns
    what=$(echo $what) package=$(echo $package) why=$(echo $why)
    case $what in
        ''|'#'*) continue ;;
        file:*)   [ -e "${what#file:}" ] ;;
        any:*)    any "${what#any:}" ;;
        module:*) python3 -c "import ${what#module:}, ensurepip" ;;
        *)        PATH=$PATH:/usr/sbin:/sbin command -v "$what" ;;
    esac > /dev/null 2>&1 && continue
    missing="$missing
  $package: $why ($what)" packages="$packages $package"
done <<EOF
$(cd "$here" && cat host-packages.txt "$@")
EOF

if [ -n "$packages" ]; then
    echo "This host lacks:$missing"
    as_root=''
    [ "$(id -u)" -eq 0 ] || as_root=sudo
    if ! grep -Eqs '^ID(_LIKE)?=.*(debian|ubuntu)' /etc/os-release; then
        echo "Nothing was changed. Install these with this distribution's package manager, for example" >&2
        for tool in dnf zypper pacman apk; do
            [ $tool = pacman ] && verb=-S || verb=install
            if command -v $tool > /dev/null; then echo "    $tool $verb$packages" >&2; fi
        done
        echo "(names are Debian's), then run this again." >&2
        exit 1
    fi
    echo "Installing:$packages"
    log=$(mktemp)
    # shellcheck disable=SC2086 # $packages is a list
    if ! {
        $as_root apt-get update &&
            $as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install --yes --no-install-recommends $packages
    } > "$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "apt-get failed; the end of its output is above, all of it in $log" >&2
        exit 1
    fi
    rm "$log"
fi

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    refuse "This is $(python3 -V 2>&1), but 3.11 or newer is needed: put one first in PATH as python3"

# Each kernel feature is tried in namespaces that end with the trial.
try() { # FEATURE PROVIDER COMMAND...
    feature=$1 provider=$2
    shift 2
    if ! error=$(unshare --mount --uts --ipc --net --pid --fork sh -c "$*" 2>&1); then
        echo "The kernel does not give the lab $feature ($(echo "$error" | head -n 1)). $provider" >&2
        failed=1
    fi
}
[ "$(id -u)" -eq 0 ] || exec sudo sh "$0" "$@"
failed=0 PATH=$PATH:/usr/sbin:/sbin
try namespaces "Allow root to make namespaces: a container needs --privileged." true
try "virtual Ethernet" "modprobe veth" ip link add name t0 type veth peer name t1
try bridges "modprobe bridge" ip link add name t0 type bridge
try macvlan "modprobe macvlan" "ip link add name t0 type veth peer name t1 &&
    ip link add link t0 name t2 type macvlan mode passthru"
try "TAP devices" "modprobe tun" ip tuntap add dev t0 mode tap
try overlay "modprobe overlay" "mount -t tmpfs t /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m &&
    mount -t overlay -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w o /mnt/m"
exit $failed
