"""A kernel forked from the warm process is like one that was started anew.

What its neighbours did does not matter.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

from tests.notebooks.nbstrict import StrictKernel
from tools import jupyter_kernels

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")
STATE = """
import gc, json, locale, logging, os, random, signal, sys, threading, warnings
OURS = ("normlib", "normcourse", "triton", "tests", "tools")
ours = [m for m in sys.modules if m.split(".")[0] in OURS]
import matplotlib, numpy, torch
state = {
    "arguments": [sys.argv[0], len(sys.argv), sys.flags, sys.warnoptions],
    "path": sys.path,
    "folder": os.getcwd(),
    "environment": {k: v for k, v in os.environ.items() if k != "JPY_PARENT_PID"},
    "parent": os.environ["JPY_PARENT_PID"] == str(os.getppid()),
    "session": os.getsid(0) == os.getpid() == os.getpgid(0),
    "umask": os.umask(0o022),
    "ours": sorted(ours),
    "main": [sys.modules["__main__"].__name__, sorted(k for k in globals() if k != "state")],
    "torch": [
        torch.get_default_dtype(), torch.get_num_threads(), torch.get_num_interop_threads(),
        torch.is_grad_enabled(), torch.get_default_device(),
        torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
        torch._tensor_str.PRINT_OPTS, torch.is_anomaly_enabled(),
    ],
    "numpy": [numpy.geterr(), numpy.get_printoptions()],
    "matplotlib": {k: str(v) for k, v in matplotlib.rcParams.items()},
    "warnings": sorted(map(str, warnings.filters)),  # their order is that of the imports
    "logging": [logging.root.level, len(logging.root.handlers)],
    "signals": [str(signal.getsignal(n)).split(" at 0x")[0] for n in signal.valid_signals()],
    "locale": locale.setlocale(locale.LC_ALL),
    "threads": sorted(t.name for t in threading.enumerate()),
    "limits": [sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()],
}
random_numbers = [
    random.random(), float(numpy.random.rand()), torch.initial_seed(), torch.rand(1).item()
]
open({path!r}, "w").write(json.dumps({"state": state, "random": random_numbers}, default=str))
"""
SPOIL = """
import os, random, sys, warnings
import matplotlib, numpy, torch
torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
torch.set_num_threads(3)
torch.set_grad_enabled(False)
torch.use_deterministic_algorithms(True)
torch.set_printoptions(precision=2)
torch.rand = None
numpy.seterr(all="raise")
matplotlib.rcParams["font.size"] = 30
warnings.simplefilter("ignore")
os.environ["TRITON_INTERPRET"] = "1"
os.environ["SPOILT"] = "1"
sys.argv.append("spoilt")
sys.path.insert(0, "spoilt")
os.umask(0o077)
os.chdir("/")
import normlib.functional, normcourse.figures
if {triton}:
    import triton
"""


def run(kernel, code):
    reply = kernel.kc.execute_interactive(
        code, output_hook=lambda _: None, timeout=jupyter_kernels.CELL_TIMEOUT_S
    )
    assert reply["content"]["status"] == "ok", reply["content"]


def stop(kernel):
    if kernel.is_alive():
        kernel.stop()
    kernel.sockets.cleanup()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the kernels work."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def start(folder):
    """start() gives a running kernel that was forked, which is stopped at the end."""
    started = []

    def start():
        started.append(StrictKernel(folder))
        return started[-1]

    yield start
    for kernel in started:
        stop(kernel)


@pytest.fixture(scope="module")
def fresh(folder):
    """A kernel that was started anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NORMLIB_FRESH_KERNELS", "1")
        kernel = StrictKernel(folder)
    yield kernel
    stop(kernel)


def seen_by(kernel, folder):
    run(kernel, STATE.replace("{path!r}", repr(str(folder / "state.json"))))
    found = json.loads((folder / "state.json").read_text())
    for name in ("NORMLIB_FRESH_KERNELS", "PYDEVD_USE_FRAME_EVAL"):  # the second one by a debugger
        found["state"]["environment"].pop(name, None)
    return found


@pytest.mark.selftest
def test_a_forked_kernel_is_like_a_fresh_one_whatever_its_neighbours_do(fresh, start, folder):
    fresh = seen_by(fresh, folder)
    assert fresh["state"]["ours"] == []
    run(start(), SPOIL.replace("{triton}", str(sys.platform == "linux")))
    first, second = (seen_by(start(), folder) for _ in range(2))
    assert first["state"] == fresh["state"]
    assert second["state"] == fresh["state"]
    assert all(a != b for a, b in zip(first["random"], second["random"], strict=True))


def test_forked_kernels_draw_other_numbers_and_hold_nothing_of_ours(start, folder):
    first, second = (seen_by(start(), folder) for _ in range(2))
    state = first["state"]
    assert second["state"] == state
    assert state["ours"] == []
    assert state["parent"] and state["session"]  # it ends with the warm process, and not with us
    assert str(Path(jupyter_kernels.__file__).parent) not in state["path"]
    assert not any("reap" in handler for handler in state["signals"])
    assert state["matplotlib"]["backend"] == jupyter_kernels.INLINE
    assert all(a != b for a, b in zip(first["random"], second["random"], strict=True))


def test_what_a_kernel_inherits(monkeypatch):
    """A preloaded library, too: tools/other_maker.py reaches the kernels by it."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("LD_PRELOAD", "other_maker.so")
    monkeypatch.setenv("NORMLIB_PROGRESS", "1")
    found = jupyter_kernels.kernel_environment()
    assert found.items() >= {"OMP_NUM_THREADS": "1", "LD_PRELOAD": "other_maker.so"}.items()
    assert found.keys().isdisjoint({"NORMLIB_PROGRESS", "PYTEST_CURRENT_TEST"})
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # as test-portable says
    assert jupyter_kernels.kernel_environment()["OMP_NUM_THREADS"] == "2"


WRITE = "__import__('os').write(1, b'written'); __import__('time').sleep(0.5)"


def written_by(kernel):
    seen = []
    kernel.kc.execute_interactive(
        WRITE,
        silent=True,  # it leaves no variable in the kernel
        output_hook=seen.append,
        timeout=jupyter_kernels.CELL_TIMEOUT_S,
    )
    return [message["content"] for message in seen if message["msg_type"] == "stream"]


def test_what_c_code_prints_is_an_output(start):
    assert written_by(start()) == [{"name": "stdout", "text": "written"}]


@pytest.mark.selftest
def test_what_c_code_prints_is_an_output_of_a_fresh_kernel_too(fresh):
    assert written_by(fresh) == [{"name": "stdout", "text": "written"}]


def wait_until(condition):
    end = time.monotonic() + jupyter_kernels.CELL_TIMEOUT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_forked_kernel_can_be_interrupted_and_stopped(start, folder):
    kernel = start()
    process = kernel.km.provisioner.process
    # a kernel that stops on errors also aborts what is asked of it soon after one
    cell = kernel.kc.execute(
        "import time; open('started', 'x'); time.sleep(10_000)", stop_on_error=False
    )
    wait_until((folder / "started").exists)
    kernel.interrupt()
    kernel.await_reply(cell, timeout=jupyter_kernels.CELL_TIMEOUT_S)
    run(kernel, "x = 1")
    kernel.stop()
    wait_until(lambda: process.poll() is not None)


@pytest.mark.selftest
def test_a_kernel_ends_with_the_warm_process():
    warm = jupyter_kernels.WarmProcess((sys.executable,), dict(os.environ))
    process = warm.fork(["-f", "no-such-folder-connection.json"], os.getcwd())
    warm.stop()
    wait_until(lambda: process.poll() is not None)


def test_a_warm_process_that_cannot_start_is_an_error():
    warm = jupyter_kernels.WarmProcess((sys.executable, "-c", "exit()"), dict(os.environ))
    with pytest.raises((RuntimeError, BrokenPipeError), match=r"ended|pipe"):
        warm.fork([], os.getcwd())


def test_the_warm_process_has_one_thread(start):
    """A thread would not be in the kernel, but the lock that it held would."""
    process = Path("/proc", str(start().km.provisioner.pid), "status").read_text()
    parent = re.search(r"PPid:\t(\d+)", process)[1]
    assert "Threads:\t1\n" in Path("/proc", parent, "status").read_text()
