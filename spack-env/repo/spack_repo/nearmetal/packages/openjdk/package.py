"""Spack's recipe of OpenJDK with a JDK from 22 on, which mpj-native needs and the pinned recipes lack."""
import platform

from spack_repo.builtin.packages.openjdk.package import Openjdk as Builtin

from spack.package import *

#: As Spack's own recipe has it since: SHA-256 and name of the archive by machine, from Adoptium's release.
RELEASE = "https://github.com/adoptium/temurin25-binaries/releases/download/jdk-25.0.1%2B8"
ARCHIVES = {
    "x86_64": ("8daf77d1aacffe38c9889689bc224a13557de77559d9a5bb91991e6a298baa0d", "OpenJDK25U-jdk_x64_linux_hotspot_25.0.1_8.tar.gz"),
    "aarch64": ("5c83b7d2121ed482fd06831a1eba1633dbab818aba6addddf48e075b97e6e9b8", "OpenJDK25U-jdk_aarch64_linux_hotspot_25.0.1_8.tar.gz"),
}


class Openjdk(Builtin):
    __doc__ = Builtin.__doc__

    if found := ARCHIVES.get(platform.machine()):
        version("25.0.1_8", sha256=found[0], url=f"{RELEASE}/{found[1]}")

    provides("java@25", when="@25.0:25")
