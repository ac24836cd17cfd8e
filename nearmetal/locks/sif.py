"""The one thing in an image that no two builds share: the times and the number in the header of SIF, which Apptainer cannot pin.

Layout: https://github.com/apptainer/sif, pkg/sif/sif.go (`header`, `rawDescriptor`), version 01, little-endian.
"""
import hashlib
import struct
import uuid
from pathlib import Path

MAGIC, VERSION = b'SIF_MAGIC\0', b'01\0'
#: Of the header: after launch script, magic, version and architecture the identity, two times, and where descriptors are.
IDENTITY, TIMES, DESCRIPTORS = 48, 64, '<qqqq'
#: Of a descriptor: its length, and where its two times are.
LENGTH, OWN_TIMES = 585, 41


class SifError(ValueError):
    """Not an image of the format that is known here."""


def pin(path: Path, seconds: int) -> None:
    """Sets all times of an image to `seconds` since 1970, and its identity to one that follows from the rest. SifError."""
    with open(path, 'r+b') as image:
        header = image.read(128)
        if len(header) < 128 or header[32:42] != MAGIC or header[42:45] != VERSION:
            raise SifError(f'{path} is no SIF image of version 01')
        free, total, offset, _ = struct.unpack_from(DESCRIPTORS, header, TIMES + 16)
        times = struct.pack('<qq', seconds, seconds)
        for number in range(total - free):
            image.seek(offset + number * LENGTH + OWN_TIMES)
            image.write(times)
        image.seek(IDENTITY)
        image.write(bytes(16) + times)
        image.seek(0)
        digest = hashlib.file_digest(image, 'sha256').digest()
        image.seek(IDENTITY)
        image.write(uuid.UUID(bytes=digest[:16], version=4).bytes)
