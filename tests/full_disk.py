"""A disk that is full, for every writer of this project: `monkeypatch.setattr(*full_disk.FULL)`."""

import errno
import os
from pathlib import Path


def write_half(path: Path, content: bytes) -> None:
    """As Path.write_bytes does it when the space ends."""
    with open(path, "wb") as file:
        file.write(content[: len(content) // 2])
    refuse(errno.ENOSPC)


def refuse(number: int) -> None:
    """What the system raises for this error."""
    raise OSError(number, os.strerror(number))


FULL = (Path, "write_bytes", write_half)
