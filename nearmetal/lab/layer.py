"""What virtual machines need over the node image: QEMU, a kernel, an initramfs. Made like the image, once, by who asks for it."""

import hashlib
import platform
from pathlib import Path

from nearmetal.lab import cache, image

HERE = Path(__file__).parent
PACKAGES = "guest-packages.txt"


def key(base: Path) -> str:
    """A hash over everything the layer is made from."""
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
    """The layer's directory over this node image, made now if this host has none for these inputs. Raises ImageError."""
    if platform.machine() != "x86_64":
        raise image.ImageError(
            f"virtual machines are those of x86_64, and this host is {platform.machine()}: "
            f"{PACKAGES} names their kernel and QEMU"
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
    # In a mount namespace that ends with it: nothing stays mounted. mmdebstrap makes devices that are not there yet.
    mount = (
        'mount -t overlay -o "lowerdir=$1,upperdir=$2/root,workdir=$2/overlay" layer "$2/merged" && rm -r "$2/merged/dev" && '
        'mkdir "$2/merged/dev" && shift 2 && exec "$@"'
    )
    # apt runs outside, by mmdebstrap's configuration: of the image nothing but dpkg is needed.
    install = (
        "APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -o Dir::Bin::dpkg=env -o DPkg::Options::=--unset=TMPDIR "
        '-o DPkg::Options::=dpkg -o DPkg::Chroot-Directory="$1" --yes install '
    )
    image.mmdebstrap(
        "guests' layer",
        work,
        [
            "--variant=custom",
            "--skip=check/empty",
            # The guests have an initramfs of ours, and keys of their lab's.
            f"--customize-hook=INITRD=No; export INITRD; {install}{' '.join(names)}",
            '--customize-hook=rm "$1"/etc/ssh/ssh_host_*',
            (
                f'--customize-hook=mkdir "$1/tmp/guest" && cp "{HERE}/guest/init" "{HERE}/guest/initramfs.sh" "$1/tmp/guest" && '
                'chroot "$1" /tmp/guest/initramfs.sh /tmp/guest && rm -r "$1/tmp/guest"'
            ),
            image.SUITE,
            str(work / "merged"),
            str(work / "sources.list"),
        ],
        say,
        before=("unshare", "--mount", "sh", "-c", mount, "layer", str(base), str(work)),
    )
