"""A wheel as a file: the same members give the same bytes."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

_EARLIEST = 315532800  # 1980: zip has no earlier time


@dataclass(frozen=True)
class Member:
    """A file of the archive."""

    path: str
    content: bytes
    executable: bool = False


def _time() -> tuple[int, int, int, int, int, int]:
    """The time of all members: SOURCE_DATE_EPOCH, or the earliest that there is."""
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", _EARLIEST)), _EARLIEST))
    return moment.tm_year, moment.tm_mon, moment.tm_mday, moment.tm_hour, moment.tm_min, moment.tm_sec


def record(members: list[Member], own_path: str) -> Member:
    """The list of all members with their hashes, itself without one."""
    lines = []
    for member in members:
        digest = base64.urlsafe_b64encode(hashlib.sha256(member.content).digest()).rstrip(b"=").decode()
        lines.append(f"{member.path},sha256={digest},{len(member.content)}\n")
    return Member(own_path, "".join([*lines, f"{own_path},,\n"]).encode())


def write(path: Path, members: list[Member]) -> None:
    """Writes the archive, in the order of the members."""
    when = _time()
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            entry = zipfile.ZipInfo(member.path, when)
            entry.create_system = 3  # Unix: the mode counts
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | (0o755 if member.executable else 0o644)) << 16
            archive.writestr(entry, member.content, compresslevel=6)
