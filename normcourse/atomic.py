"""The one way in which this project writes a file that somebody may miss: whole, or not at all.

It needs nothing but the standard library, so that `make lab` starts without torch.
"""

import contextlib
import os
from pathlib import Path


def write(path: Path, content: str | bytes) -> None:
    """Write beside the file, then rename: a full disk or a killed process leaves the former one.

    Args:
        content: text is written as UTF-8, with the line ends that it has.
    Raises: OSError, which names the file; nothing is left of the attempt.
    """
    content = content if isinstance(content, bytes) else content.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")  # two processes: two drafts
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error
