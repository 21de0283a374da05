"""Weights in other files, which must lie beneath the model's folder."""
import os
import struct

from corpus.pieces import FOLDER, case, external


@case
def external_parent():
    """Out of the folder by `..` (CVE-2022-25882)."""
    return external(location="../../../README.md", length=24)


@case
def external_parent_hidden():
    """`..` in the middle (CVE-2024-27318)."""
    return external(location="sub/../../README.md", length=24)


@case
def external_absolute():
    """An absolute path."""
    return external(location="/etc/passwd", length=24)


@case
def external_symlink():
    """A link inside the folder to a file outside."""
    link = FOLDER / "external_symlink.bin"
    if not link.is_symlink():
        os.symlink("../../README.md", link)
    return external(location="external_symlink.bin", length=24)


@case
def external_nul_byte():
    """A NUL byte ends the path for the system, not for a check."""
    return external(location="weights.bin\0/../../x", length=24)


@case
def external_missing():
    """A file that is not there."""
    return external(location="nowhere.bin", length=24)


@case
def external_folder():
    """A folder in place of a file."""
    return external(location=".", length=24)


@case
def external_without_location():
    """External, but where?"""
    return external(offset=0, length=24)


@case
def external_offset_beyond():
    """Bytes beyond the end of the file."""
    (FOLDER / "weights.bin").write_bytes(struct.pack("<8f", *range(8)))
    return external(location="weights.bin", offset=16, length=24)


@case
def external_offset_wraps():
    """Offset + length wraps around 2^64."""
    return external(location="weights.bin", offset=2**64 - 8, length=24)


@case
def external_offset_negative():
    """An offset of -8."""
    return external(location="weights.bin", offset=-8, length=24)


@case
def external_offset_not_a_number():
    """An offset of `0x10`."""
    return external(location="weights.bin", offset="0x10", length=24)


@case
def external_length_differs():
    """A length that is not the tensor's."""
    return external(location="weights.bin", offset=0, length=32)


@case
def external_and_raw():
    """External data, and data of its own."""
    made = external(location="weights.bin", offset=0, length=24)
    made.graph.initializer[0].raw_data = b"\0" * 24
    return made
