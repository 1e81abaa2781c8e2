"""The last cache before memory, as the machine states it."""

import platform
import subprocess
from pathlib import Path
from typing import NamedTuple

HOST_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
ASSUMED = 64 * 2**20
MAC_CACHES = {"hw.l3cachesize": "L3", "hw.perflevel0.l2cachesize": "L2", "hw.l2cachesize": "L2"}


class Cache(NamedTuple):
    nbytes: int
    name: str


def host_cache(folder: Path = HOST_CACHES) -> Cache:
    """The largest cache of the first core; a size that had to be assumed says so in its name."""
    found = [cache for cache in map(_linux, sorted(folder.glob("index*"))) if cache]
    found = found or _other_systems()
    return max(found, default=Cache(ASSUMED, "a last-level cache of assumed size"))


def _linux(folder: Path) -> Cache | None:
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    try:
        level = (folder / "level").read_text().strip()
        kind = (folder / "type").read_text().strip()
        size = (folder / "size").read_text().strip()
        nbytes = int(size[:-1]) * units[size[-1]]
    except (OSError, ValueError, KeyError, IndexError):
        return None
    return None if kind == "Instruction" else Cache(nbytes, f"L{level}")


def _other_systems() -> list[Cache]:
    """macOS tells by sysctl; other systems by nothing that the standard library can read."""
    if platform.system() != "Darwin":
        return []
    found = []
    for key, name in MAC_CACHES.items():
        answer = subprocess.run(["sysctl", "-n", key], capture_output=True, text=True)
        if answer.stdout.strip().isdigit():
            found.append(Cache(int(answer.stdout), name))
    return found
