"""Build the layer over the node image for virtual machines: QEMU, a kernel and an initramfs."""

import hashlib
import platform
from pathlib import Path

from nearmetal.lab import cache, image

HERE = Path(__file__).parent
PACKAGES = "guest-packages.txt"


def key(base: Path) -> str:
    """Digest of everything that the layer is made from."""
    digest = hashlib.sha256(base.name.encode())
    for path in (
        HERE / PACKAGES,
        HERE / "guest" / "init",
        HERE / "guest" / "initramfs.sh",
        Path(__file__),
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def ensure(base: Path, say=print) -> Path:
    """Directory of the layer over this node image, built if there is none. Raises ImageError."""
    if platform.machine() != "x86_64":
        raise image.ImageError(
            f"virtual machines need an x86_64 host, and this host is {platform.machine()}: "
            f"{PACKAGES} lists their kernel and QEMU"
        )
    return cache.built(
        "guests' layer",
        f"layer-{key(base)}",
        "QEMU and a kernel: about a minute, 0.3 GB",
        lambda work, say: _build(base, work, say),
        say,
    )


def _build(base: Path, work: Path, say) -> None:
    names, _ = image.packages(PACKAGES)
    (work / "sources.list").write_text(f"deb {image.mirror()} {image.SUITE} main\n")
    for directory in ("root", "overlay", "merged"):
        (work / directory).mkdir()
    # It runs in a mount namespace, so nothing stays mounted. mmdebstrap makes missing devices.
    mount = (
        'mount -t overlay -o "lowerdir=$1,upperdir=$2/root,workdir=$2/overlay" '
        'layer "$2/merged" && '
        'rm -r "$2/merged/dev" && mkdir "$2/merged/dev" && shift 2 && exec "$@"'
    )
    # apt runs on the host with mmdebstrap's configuration. Only dpkg runs in the image.
    install = (
        "APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -o Dir::Bin::dpkg=env "
        "-o DPkg::Options::=--unset=TMPDIR "
        '-o DPkg::Options::=dpkg -o DPkg::Chroot-Directory="$1" --yes install '
    )
    image.mmdebstrap(
        "guests' layer",
        work,
        [
            "--variant=custom",
            "--skip=check/empty",
            # Guests boot our own initramfs and have the ssh keys of their lab.
            f"--customize-hook=INITRD=No; export INITRD; {install}{' '.join(names)}",
            '--customize-hook=rm "$1"/etc/ssh/ssh_host_*',
            (
                f'--customize-hook=mkdir "$1/tmp/guest" && '
                f'cp "{HERE}/guest/init" "{HERE}/guest/initramfs.sh" "$1/tmp/guest" && '
                'chroot "$1" /tmp/guest/initramfs.sh /tmp/guest && rm -r "$1/tmp/guest"'
            ),
            image.SUITE,
            str(work / "merged"),
            str(work / "sources.list"),
        ],
        say,
        before=("unshare", "--mount", "sh", "-c", mount, "layer", str(base), str(work)),
    )
