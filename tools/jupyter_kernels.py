"""The kernels that run this project's notebooks: how each starts, and how long its cells may take.

Importing torch and matplotlib takes longer than the cells of a short lesson. On Linux a kernel is
therefore forked from a warm process, which has imported what WARM names and has done nothing else.
Each kernel has its own memory, working directory and arguments, like one that was started anew; it
imports normlib and normcourse itself. tests/notebooks/test_jupyter_kernels.py compares both kinds.
On other systems, and with NORMLIB_FRESH_KERNELS=1, a kernel starts as Jupyter starts it.
"""

import atexit
import contextlib
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable
from functools import cache
from threading import Lock
from types import ModuleType
from typing import cast

from jupyter_client.provisioning import LocalProvisioner

# For a cell that hangs; no measure of speed: a busy machine takes many times the 20 s of the
# longest cell.
CELL_TIMEOUT_S = 600
WARM = (  # nothing that few lessons import: sympy adds a filter of warnings
    "ipykernel.kernelapp",
    "torch",
    "numpy",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "PIL.PngImagePlugin",
)
# what ipykernel sets before anything is imported
INLINE = "module://matplotlib_inline.backend_inline"


def kernel_environment() -> dict[str, str]:
    """One thread, so that sums are rounded alike everywhere; nothing of the test that runs now."""
    environment = {"OMP_NUM_THREADS": "1"} | os.environ
    environment.pop("NORMLIB_PROGRESS", None)  # a bar on stderr would be an output
    environment.pop("PYTEST_CURRENT_TEST", None)  # ipykernel would not catch what C code prints
    return environment


def transport(folder: str) -> dict[str, str]:
    """Files in folder, not ports: a free port may be another process's when the kernel opens it."""
    return {} if os.name == "nt" else {"transport": "ipc", "ip": f"{folder}/kernel"}


def start_warm(manager) -> None:
    """Let the KernelManager, before it starts, fork its kernel where the system allows that."""
    if sys.platform == "linux" and os.environ.get("NORMLIB_FRESH_KERNELS") != "1":
        manager.kernel_id = str(uuid.uuid4())
        manager.provisioner = ForkingProvisioner(
            kernel_id=manager.kernel_id, kernel_spec=manager.kernel_spec, parent=manager
        )


class ForkingProvisioner(LocalProvisioner):
    """Jupyter's interface to a kernel's process."""

    async def launch_kernel(self, cmd, **kwargs):
        split = cmd.index("-m")  # python [options] -m ipykernel_launcher [arguments]
        environment = frozenset(kwargs["env"].items())
        warm = warm_process(tuple(cmd[:split]), environment)
        process = warm.fork(cmd[split + 2 :], kwargs["cwd"])
        self.process = cast(subprocess.Popen, process)
        self.pid = process.pid
        self.pgid = process.pid
        self.cwd = kwargs["cwd"]
        return self.connection_info


@cache
def warm_process(python: tuple[str, ...], environment: frozenset) -> "WarmProcess":
    """One for each environment: libraries read it when they are imported."""
    return WarmProcess(python, dict(environment))


class WarmProcess:
    """It ends when its input does, that is with this process; its kernels notice and end, too."""

    def __init__(self, python: Iterable[str], environment: dict[str, str]) -> None:
        self.lock = Lock()
        self.process = subprocess.Popen(
            [*python, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the tests
            text=True,
        )
        atexit.register(self.stop)

    def stop(self) -> None:
        self.process.communicate()  # closes its input

    def fork(self, arguments: list[str], folder: str) -> "ForkedProcess":
        with self.lock:
            assert self.process.stdout is not None  # a pipe, as __init__ asked for
            print(json.dumps([arguments, folder]), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the warm process, from which kernels are forked, ended")
        return ForkedProcess(int(answer))


class ForkedProcess:
    """What Jupyter asks of a subprocess.Popen, for a process that is not our child."""

    stdin = None
    stdout = None
    stderr = None

    def __init__(self, pid: int):
        self.pid = pid

    def poll(self) -> int | None:
        """None while it runs; its exit status is not known."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return -1
        return None

    def wait(self) -> int | None:
        return self.poll()  # Jupyter calls it when poll has said that the process ended

    def send_signal(self, number: int) -> None:
        """As Popen's: nothing happens if the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def terminate(self) -> None:  # on a busy machine Jupyter does not wait until it has ended
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def serve() -> None:
    """Serve as the warm process: each line of input, [arguments, folder], starts a kernel.

    The answer is the kernel's process id.
    """
    del sys.path[0]  # the folder of this script, which a kernel does not have
    os.environ["JPY_PARENT_PID"] = str(os.getpid())
    backend = os.environ.get("MPLBACKEND")
    os.environ["MPLBACKEND"] = backend or INLINE
    # nobody attaches a debugger to these kernels, and each would import it: 0.15 s
    sys.modules["debugpy"] = cast(ModuleType, None)
    for module in WARM:
        importlib.import_module(module)
    if backend is None:
        del os.environ["MPLBACKEND"]
    signal.signal(signal.SIGCHLD, reap)
    for request in sys.stdin:
        arguments, folder = json.loads(request)
        pid = os.fork()
        if pid == 0:
            become_kernel(arguments, folder)
            sys.exit()
        print(pid, flush=True)


def reap(*_) -> None:
    """Let kernels that ended go.

    (If the signal were ignored, `time` would not count their CPU time.)
    """
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def become_kernel(arguments: list[str], folder: str) -> None:
    """What a new process has, and a forked one has not; then ipykernel."""
    import numpy
    import torch
    from ipykernel import kernelapp

    os.setsid()
    os.chdir(folder)
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(silence, stream)
    os.close(silence)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    numpy.random.seed()  # a seed of its own, as at import; Python's random does it itself
    torch.default_generator.seed()
    launcher = importlib.util.find_spec("ipykernel_launcher")
    sys.argv = [str(launcher and launcher.origin), *arguments]
    kernelapp.launch_new_instance()


if __name__ == "__main__":
    serve()
