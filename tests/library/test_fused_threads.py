"""fused in threads of its own: the same bits, nothing left behind, and what a thread may break."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from normlib import functional, fused, layers
from normlib.fused import blocks, cpu, operators, threads
from tests.library.norm_cases import draw, output_and_gradients

pytestmark = pytest.mark.usefixtures("operators_at_every_size")
DTYPES = [torch.float64, torch.float32, torch.bfloat16]
ROWS, WIDTH = 67, 13
ONE = torch.tensor([0.7])
CASES = {  # call, and its tensors after the input
    "rms_norm": (lambda lib, x, w: lib.rms_norm(x, (WIDTH,), w, 1e-3), [draw(WIDTH, seed=1)]),
    "dyt": (lambda lib, *t: lib.dyt(*t), [ONE, draw(WIDTH, seed=1), draw(WIDTH, seed=2)]),
    "dyisru": (lambda lib, *t: lib.dyisru(*t), [ONE, draw(WIDTH, seed=1), draw(WIDTH, seed=2)]),
}
every_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """67 rows of 13 in 17 blocks of four rows."""
    monkeypatch.setattr(blocks, "BLOCK", 4 * WIDTH)


@pytest.fixture
def set_threads():
    usual = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(usual)


@pytest.fixture
def two_threads(set_threads):
    set_threads(2)


def case(name, library=fused, dtype=torch.float64):
    call, params = CASES[name]
    tensors = [draw(ROWS, WIDTH, dtype=dtype), *(param.to(dtype) for param in params)]
    return lambda *t: call(library, *t), tensors


def results(name, library=fused, dtype=torch.float64):
    run, tensors = case(name, library, dtype)
    return output_and_gradients(run, draw(ROWS, WIDTH, seed=9, dtype=dtype), *tensors)


def ours():
    return [thread for thread in threading.enumerate() if thread.name.startswith("normlib")]


def spy(monkeypatch, before):
    """Calls before() in the thread that does a block's last step, in each block."""
    store = blocks.Scratch.store

    def watched(self, result, block):
        before()
        return store(self, result, block)

    monkeypatch.setattr(blocks.Scratch, "store", watched)


# The same results


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@every_case
def test_the_same_bits_with_any_number_of_threads(name, dtype, set_threads):
    set_threads(1)
    alone = results(name, dtype=dtype)
    for count in (2, 3, 5):
        set_threads(count)
        for _ in range(5):
            assert all(map(torch.equal, results(name, dtype=dtype), alone))


@every_case
def test_the_truth_with_two_threads(name, two_threads):
    for got, want in zip(results(name), results(name, functional), strict=True):
        assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_a_row_longer_than_a_block(monkeypatch, set_threads):
    monkeypatch.setattr(blocks, "BLOCK", 5)
    for name in CASES:
        set_threads(1)
        alone = results(name)
        set_threads(3)
        assert all(map(torch.equal, results(name), alone))


def test_fewer_blocks_than_threads_are_done_with_torchs_threads(monkeypatch, set_threads):
    monkeypatch.setattr(blocks, "BLOCK", ROWS * WIDTH // 4)
    workers = []
    spy(monkeypatch, lambda: workers.append(threading.current_thread()))
    set_threads(8)
    for name in CASES:
        for got, want in zip(results(name), results(name, functional), strict=True):
            assert_close(got, want, rtol=1e-12, atol=1e-12)
    # in one block: a forward and a backward of each
    assert workers == [threading.current_thread()] * 2 * len(CASES)


# What a thread of ours has and has not


@every_case
def test_a_block_is_done_by_one_thread_of_torchs(name, monkeypatch, two_threads):
    counts, workers = set(), set()

    def look():
        counts.add(torch.get_num_threads())
        workers.add(threading.current_thread().name)

    spy(monkeypatch, look)
    results(name)
    assert counts == {1}
    assert workers <= {thread.name for thread in ours()}


def test_torchs_number_of_threads_stays_for_everybody_else(monkeypatch, set_threads):
    set_number = torch.set_num_threads

    def slowly(count):
        set_number(count)
        if threading.current_thread() in ours():
            time.sleep(0.05)  # time for another thread to take this number for the usual one

    monkeypatch.setattr(torch, "set_num_threads", slowly)
    monkeypatch.setattr(threads, "_executors", {})  # all threads start anew
    for count in (3, 2):
        set_threads(count)
        results("dyt")
        with ThreadPoolExecutor(1) as new:
            assert torch.get_num_threads() == new.submit(torch.get_num_threads).result() == count


@every_case
def test_no_more_threads_than_torchs(name, set_threads):
    set_threads(3)
    for _ in range(5):
        results(name)
    assert len(threads._executors[3]._threads) <= 3


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@every_case
def test_modes_of_the_caller(name, mode, two_threads):
    run, tensors = case(name)
    want = run(*tensors)
    with mode():
        tensors = [tensor.clone().requires_grad_() for tensor in tensors]
        got = run(*tensors)
    assert torch.equal(got, want)
    assert got.is_inference() == (mode is torch.inference_mode)
    assert got.requires_grad == (mode is torch.enable_grad)
    got.detach().mul_(2) if mode is not torch.inference_mode else got.clone().mul_(2)


@every_case
def test_in_place_after_it_and_second_derivatives(name, two_threads):
    seen = []
    for library in (fused, functional):
        run, tensors = case(name, library)
        leaves = [tensor.requires_grad_() for tensor in tensors]
        y = run(*leaves).mul_(2)
        first = torch.autograd.grad(y.square().sum(), leaves, create_graph=True)
        total = sum(grad.square().sum() for grad in first)
        seen.append([*first, *torch.autograd.grad(total, leaves)])
    for got, want in zip(*seen, strict=True):
        assert_close(got, want, rtol=1e-9, atol=1e-9 * want.abs().max().item())


@every_case
def test_compiled(name, two_threads):
    torch.compiler.reset()
    run, tensors = case(name)
    dy = draw(ROWS, WIDTH, seed=9)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for got, want in zip(output_and_gradients(compiled, dy, *tensors), results(name), strict=True):
        assert_close(got, want, rtol=1e-13, atol=1e-13)


def test_a_device_of_the_callers(two_threads):
    x = draw(ROWS, WIDTH)
    want = fused.rms_norm(x, (WIDTH,))
    with torch.device("meta"):  # what is allocated without a device
        assert torch.equal(fused.rms_norm(x, (WIDTH,)), want)


# Errors


class BlockError(Exception):
    pass


@pytest.mark.parametrize("after", [0, 1, 7])
def test_an_error_reaches_the_caller_when_no_thread_is_at_work(after, monkeypatch, two_threads):
    begun, at_work = [], set()
    affine = cpu._affine

    def fail(value, *args, **options):
        at_work.add(threading.current_thread())
        begun.append(value)
        try:
            if len(begun) > after:
                raise BlockError("of a block")
            return affine(value, *args, **options)
        finally:
            at_work.discard(threading.current_thread())

    run, (x, *params) = case("dyt")
    x.requires_grad_()
    with monkeypatch.context() as planted:
        planted.setattr(cpu, "_affine", fail)
        with pytest.raises(BlockError, match="of a block"):
            run(x, *params)
        count = len(begun)
    assert not at_work and count <= 17 and x.grad is None
    assert torch.equal(x.detach(), case("dyt")[1][0])
    for got, want in zip(results("dyt"), results("dyt", functional), strict=True):
        assert_close(got, want, rtol=1e-12, atol=1e-12)
    assert len(begun) == count  # nothing was left over


def test_an_error_in_a_backward(monkeypatch, two_threads):
    run, tensors = case("dyisru")
    leaves = [tensor.requires_grad_() for tensor in tensors]
    y = run(*leaves)

    def fail():
        raise BlockError

    with monkeypatch.context() as planted:
        spy(planted, fail)
        with pytest.raises(BlockError):
            y.sum().backward()
    assert all(leaf.grad is None for leaf in leaves)


@pytest.mark.parametrize("how", ["an error", "a caller that is interrupted"])
def test_what_has_begun_is_waited_for_and_the_rest_is_not_begun(how, two_threads):
    begun, done, second, go_on = [], [], threading.Event(), threading.Event()

    def work(item):
        begun.append(item)
        if item == 0:
            second.wait(60)
            if how == "an error":
                raise BlockError
            return
        second.set()
        go_on.wait(60)
        done.append(item)

    threading.Timer(0.2, go_on.set).start()
    taken = threads.in_order(work, range(100))
    if how == "an error":
        with pytest.raises(BlockError):
            next(taken)
    else:
        next(taken)
        taken.close()  # as an exception in the caller's loop does
    assert sorted(begun) == sorted([0, *done]) and len(begun) <= 3
    assert list(threads.in_order(str, range(3))) == ["0", "1", "2"]
    assert len(begun) <= 3


def test_no_more_results_wait_than_a_few_for_each_thread(two_threads):
    started = []
    taken = threads.in_order(lambda item: started.append(item) or item, range(1000))
    assert next(taken) == 0
    assert len(started) <= threads.AHEAD * 2
    assert list(taken) == list(range(1, 1000))


# Other threads, other processes


def test_many_callers_at_once(two_threads):
    wants = {name: results(name, functional) for name in CASES}
    meet = threading.Barrier(9)

    def call(number):
        torch.set_num_threads(2)
        meet.wait()
        for _ in range(5):
            for name, want in wants.items():
                for got, other in zip(results(name), want, strict=True):
                    assert_close(got, other, rtol=1e-12, atol=1e-12)
        return number

    with ThreadPoolExecutor(9) as callers:
        assert list(callers.map(call, range(9))) == list(range(9))
    assert len(threads._executors[2]._threads) <= 2


def test_replicas_of_a_model_in_threads(two_threads):
    """As DataParallel does it: the same parameters, forward and backward in threads."""
    model = nn.Sequential(
        layers.RMSNorm(WIDTH, fused=True), nn.ReLU(inplace=True), layers.DyT(WIDTH, fused=True)
    ).double()
    inputs = [draw(ROWS, WIDTH, seed=seed) for seed in range(6)]

    def step(x):
        torch.set_num_threads(2)
        return torch.autograd.grad(model(x).square().sum(), list(model.parameters()))

    alone = [step(x) for x in inputs]
    with ThreadPoolExecutor(6) as replicas:
        for got, want in zip(replicas.map(step, inputs), alone, strict=True):
            assert all(map(torch.equal, got, want))


def _in_a_child(queue):
    torch.set_num_threads(2)
    queue.put([tensor.tolist() for tensor in results("rms_norm")])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on Windows")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(two_threads):
    want = [tensor.tolist() for tensor in results("rms_norm")]
    assert ours()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with threads._lock:  # as if a thread were just starting
        child = context.Process(target=_in_a_child, args=(queue,))
        child.start()
    try:
        assert queue.get(timeout=60) == want
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()


SCRIPT = """
import atexit, os, sys, threading
import torch
import normlib
from normlib import fused
from normlib.fused import blocks, operators

names = lambda: [thread.name for thread in threading.enumerate()]
assert len(names()) == 1, f"threads after the import: {names()}"
torch.set_num_threads(2)
x = torch.randn(64, 64)
fused.rms_norm(x, (64,))
assert len(names()) == 1, f"threads for a small input: {names()}"
operators.SMALL, blocks.BLOCK = -1, 256
want = fused.rms_norm(x, (64,))
assert len(names()) > 1

def at_the_end():
    assert torch.equal(fused.rms_norm(x, (64,)), want)
    print("at the end")

atexit.register(at_the_end)
if sys.argv[1] == "fork" and os.fork() == 0:
    assert torch.equal(fused.rms_norm(x, (64,)), want)
if sys.argv[1] == "thread":
    again = lambda: [fused.rms_norm(x, (64,)) for _ in range(50)]
    threading.Thread(target=again).start()  # still at it when the main thread ends
"""


@pytest.mark.parametrize(
    "how",
    ["alone", *(pytest.param(how, marks=pytest.mark.slow) for how in ("thread", "fork"))],
)
def test_no_threads_before_they_are_needed_and_a_clean_end(how):
    if how == "fork" and not hasattr(os, "fork"):
        pytest.skip("no fork on Windows")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, how]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "at the end\n" * (2 if how == "fork" else 1)


# Small inputs


@every_case
def test_small_inputs_are_functionals(name, monkeypatch):
    monkeypatch.setattr(operators, "SMALL", ROWS * WIDTH)
    run, tensors = case(name)
    y = run(*(tensor.requires_grad_() for tensor in tensors))
    assert "normlib" not in type(y.grad_fn).__name__
    if name != "dyisru":  # whose input is held finite first
        assert all(map(torch.equal, results(name), results(name, functional)))
    for got, want in zip(results(name), results(name, functional), strict=True):
        assert_close(got, want, rtol=1e-13, atol=1e-13)

    monkeypatch.setattr(operators, "SMALL", ROWS * WIDTH - 1)
    assert "normlib" in type(run(*tensors).grad_fn).__name__


@pytest.mark.parametrize("small", [-1, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_dyisru_at_infinity_at_every_size(dtype, small, monkeypatch):
    monkeypatch.setattr(operators, "SMALL", small)
    x = torch.tensor([-torch.inf, torch.inf, 1.0], dtype=dtype, requires_grad=True)
    c = torch.tensor([1.0], dtype=dtype, requires_grad=True)
    y = fused.dyisru(x, c, scale=2.0)
    dx, dc = torch.autograd.grad(y.sum(), (x, c))
    assert y[:2].tolist() == [-2.0, 2.0] and dx[:2].tolist() == [0.0, 0.0]
    # of x = 1 alone: -x / (x^2 + c)^(3/2), and a rounding to dtype
    assert_close(dc.double(), torch.tensor([-(2.0**-1.5)]).double(), rtol=0.004, atol=0)
    assert fused.dyisru(torch.full((2,), torch.nan, dtype=dtype), c).isnan().all()


def test_compiled_small_inputs_are_operators(monkeypatch):
    monkeypatch.setattr(operators, "SMALL", ROWS * WIDTH)
    torch.compiler.reset()
    called = []

    def backend(graph, _):
        called.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    run, tensors = case("rms_norm")
    torch.compile(run, fullgraph=True, backend=backend)(*tensors)
    assert any("normlib.norm" in name for name in called)
