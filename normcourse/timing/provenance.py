"""Where numbers come from: machine, versions, settings, commit.

No user, host or path of the machine.
"""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath, PureWindowsPath

import torch

ALLOCATOR = (
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
)
GPU_FIELDS = (
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "power.draw",
    "power.limit",
    "temperature.gpu",
)
UNKNOWN = "not readable"


def provenance(device: str = "cpu", command: str | None = None) -> dict:
    """What a reader must know to repeat a measurement, as JSON; what cannot be read says so."""
    on_gpu = device == "cuda"
    origin = {
        "machine": machine(),
        "device": _device_name() if on_gpu else "CPU",
        "driver": _gpu()["driver_version"] if on_gpu else "none",
        "cuda": torch.version.cuda or "none",
        "torch": torch.__version__,
        "triton": _version("triton"),
        "python": platform.python_version(),
        "commit": commit(),
        "command": command or _command(sys.argv),
    }
    return origin | conditions(device)


def conditions(device: str = "cpu") -> dict:
    """What can change from one measurement to the next on one machine."""
    clocks = _cpu_clock()
    power = UNKNOWN
    if device == "cuda":
        gpu = _gpu()
        clocks = f"SM {gpu['clocks.sm']}, memory {gpu['clocks.mem']}"
        power = f"{gpu['power.draw']} of {gpu['power.limit']}, {gpu['temperature.gpu']} °C"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "threads": torch.get_num_threads(),
        "allocator": allocator(),
        "clocks": clocks,
        "power": power,
    }


def allocator() -> str:
    """The settings that decide whether fresh memory is page-faulted in on every call."""
    found = [
        f"{key}={', '.join(map(_last_part, value.split(':')))}"
        for key, value in sorted(os.environ.items())
        if key.startswith(ALLOCATOR) and value
    ]
    return " ".join(found) or "as it comes"


def machine() -> str:
    """Processor, cores that this process may use, architecture, system: in words."""
    return f"{processor()}, {cores()} cores, {platform.machine()}, {platform.system()}"


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def commit() -> str:
    """The commit of this file's repository, with "+ changes" when files differ from it."""
    folder = Path(__file__).parent
    tracked = _output("git", "-C", str(folder), "ls-files", Path(__file__).name)
    head = _output("git", "-C", str(folder), "rev-parse", "--short=12", "HEAD")
    if not head or not tracked:
        return UNKNOWN
    changed = _output("git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no")
    return f"{head} + changes" if changed else head


def _device_name() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else UNKNOWN


def processor() -> str:
    """The CPU's name, as the system gives it."""
    for line in _cpuinfo():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or UNKNOWN


def _cpu_clock() -> str:
    found = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("cpu MHz")]
    return f"{float(found[0]):.0f} MHz" if found else UNKNOWN


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return []


def _gpu() -> dict[str, str]:
    """GPU_FIELDS of the current card, found by its uuid: nvidia-smi counts hidden cards as well."""
    unknown = dict.fromkeys(GPU_FIELDS, UNKNOWN)
    if not torch.cuda.is_available():  # a simulated device
        return unknown
    uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
    fields = f"--query-gpu={','.join(GPU_FIELDS)}"
    told = _output("nvidia-smi", fields, "--format=csv,noheader", f"--id=GPU-{uuid}")
    values = [value.strip() for value in told.partition("\n")[0].split(",")]
    if len(values) != len(GPU_FIELDS):
        return unknown
    return dict(zip(GPU_FIELDS, values, strict=True))


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _command(arguments: list[str]) -> str:
    """The command line without folders: a kernel's is full of them and says nothing."""
    if "ipykernel" in sys.modules:
        return "a notebook"
    return " ".join(["python", *map(_last_part, arguments)])


def _last_part(word: str) -> str:
    key, equals, value = word.partition("=")
    value = value if equals else key
    for kind in (PurePosixPath, PureWindowsPath):
        value = kind(value).name if len(kind(value).parts) > 1 else value
    return f"{key}{equals}{value}" if equals else value
