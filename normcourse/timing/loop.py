"""The one loop that times: contenders, the copy and the empty call, interleaved in random order."""

import gc
import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from normcourse.timing.correctness import Judge, outputs
from normcourse.timing.devices import Cpu, Cuda, Sample, resolve
from normcourse.timing.errors import TimingError
from normcourse.timing.inputs import draw, nbytes, sets_needed, twin
from normcourse.timing.passes import timed_pass
from normcourse.timing.provenance import conditions
from normcourse.timing.results import CONTROLS, Output, Result, in_words

FEWEST = 6  # rounds: fewer have no 95 % interval of the median
FEWEST_IN_TIME = 9  # rounds that are measured whatever `seconds` says


def measure(
    candidates: Mapping[str, Callable],
    make_inputs: Callable[[torch.Generator], tuple[Tensor, ...]],
    *,
    moved_bytes: int,
    reference: Callable | Mapping[str, Callable] | None = None,
    device: str | torch.device | Cpu | Cuda = "cpu",
    cache: str = "cold",
    rounds: int = 30,
    warmup: int = 3,
    seed: int = 0,
    seconds: float | None = None,
    tolerance: float | None = None,
    clock: Callable[[], float] | None = None,
    what: str = "",
    case: Mapping[str, object] | None = None,
) -> Result:
    """Time candidates against each other, two copies of the same bytes and an empty call.

    Args:
        candidates: name: f; each is called as f(*inputs) and returns a tensor or a tuple of them.
        make_inputs: draws the inputs with the generator it gets, on generator.device.
        moved_bytes: the least traffic of the function, one number for all contenders.
        reference: the truth, called once with the inputs in float64; every candidate is held
            against it before the loop, and again with the outputs of the last timed round. A
            mapping name: truth compares different functions of the same traffic; their outputs
            must agree in dtype only.
        device: "cpu", "cuda", or a Cpu or Cuda object with a clock or driver of its own.
        cache: "cold" uses clones of the inputs in turn, together over three times the last-level
            cache (L2 on a GPU); "warm" uses the same tensors each time.
        rounds, warmup: in each round every contender is called once, in an order drawn anew.
        seconds: stop after this time, but not before 9 rounds; None measures all rounds.
        tolerance: of |y - truth| / (|truth| + rms(truth)); None takes it from the output's dtype.
        clock: for the CPU, a function returning seconds.
        what, case: title and key of the measurement, for the table and the record.
    Raises:
        ValueError: arguments or inputs that cannot be timed (NaN, zeros, another device).
        TimingError: a candidate that is wrong, writes into its input, or does other work.
    """
    _arguments(candidates, reference, moved_bytes, cache, rounds, warmup)
    device = resolve(device, clock)
    inputs = draw(make_inputs, device.place, seed)
    judge = Judge(reference, inputs, tolerance)
    judge.first_look(candidates, inputs)
    last_cache = device.cache()
    sets = _sets(inputs, last_cache.nbytes, cache)
    turns = _all_turns(candidates, sets, device, moved_bytes, cache)
    samples = _loop(
        partial(_round, device, turns, cache == "warm"),
        list(turns),
        device.clock,
        seed=seed,
        rounds=rounds,
        warmup=warmup,
        seconds=seconds,
    )
    _clock_went_on(samples)
    result = Result(
        what=what,
        case=dict(case or {}),
        device=device.name,
        cache=cache,
        cache_name=last_cache.name,
        cache_bytes=last_cache.nbytes,
        working_set_bytes=len(sets) * nbytes(inputs),
        seed=seed,
        moved_bytes=moved_bytes,
        entry=timed_pass(next(iter(candidates.values()))),
        peak_bytes_per_s=device.peak_bytes_per_s(),
        conditions=conditions(device.name),
        seen=list(device.flags),
        outputs={name: _output(name, samples[name][-1], judge) for name in candidates},
        samples={name: [sample.device_s for sample in own] for name, own in samples.items()},
        hosts=_hosts(device, samples),
    )
    return replace(result, seen=result.seen + _unwitnessed(device, turns, result))


def _arguments(
    candidates: Mapping,
    reference: object,
    moved_bytes: int,
    cache: str,
    rounds: int,
    warmup: int,
) -> None:
    wrong = None
    if not candidates or set(candidates) & set(CONTROLS):
        controls = " or ".join(CONTROLS)
        wrong = f"candidates {list(candidates)}", f"at least one, and none named {controls}"
    elif isinstance(reference, Mapping) and set(reference) != set(candidates):
        wrong = f"references of {list(reference)}", "one function, or one of each candidate"
    elif isinstance(moved_bytes, bool) or not isinstance(moved_bytes, int) or moved_bytes < 2:
        wrong = (
            f"moved_bytes={moved_bytes!r}",
            "one whole number of bytes, the same for all contenders",
        )
    elif cache not in ("cold", "warm"):
        wrong = f"cache={cache!r}", "'cold' or 'warm'"
    elif rounds < FEWEST:
        wrong = f"rounds={rounds}", f"{FEWEST} or more: fewer have no 95 % interval of the median"
    elif warmup < 1:
        wrong = f"warmup={warmup}", "1 or more: first calls load code, fill caches and compile"
    if wrong:
        raise ValueError(f"measure got {wrong[0]}, expected {wrong[1]}.")


def _sets(inputs: tuple[Tensor, ...], cache_bytes: int, cache: str) -> list[tuple[Tensor, ...]]:
    count = sets_needed(nbytes(inputs), cache_bytes, cache)
    return [tuple(twin(x) for x in inputs) for _ in range(count)]


def _all_turns(
    candidates: Mapping[str, Callable],
    sets: list[tuple[Tensor, ...]],
    device: Cpu | Cuda,
    moved_bytes: int,
    cache: str,
) -> dict[str, Iterator[Callable]]:
    """Calls without an end for every contender; one count for all, so each finds a rested set."""
    turn = itertools.count()
    turns = {name: _turns(candidate, sets, turn) for name, candidate in candidates.items()}
    turns |= _copies(device, moved_bytes, cache)
    turns["empty"] = itertools.repeat(device.empty)
    return turns


def _turns(
    candidate: Callable, sets: list[tuple[Tensor, ...]], turn: Iterator[int]
) -> Iterator[Callable]:
    prepare = getattr(candidate, "prepare", None)
    calls = [prepare(*own) if prepare else partial(candidate, *own) for own in sets]
    while True:
        yield calls[next(turn) % len(calls)]


def _copies(device: Cpu | Cuda, moved_bytes: int, cache: str) -> dict[str, Iterator[Callable]]:
    """Calls of the two copies on one ring of blocks: each splits a block for itself."""
    copies: dict[str, tuple[Callable, int]] = {
        "copy": (device.copy, 2),
        "kernel copy": (device.kernel_copy, device.kernel_reads + 1),
    }
    numbers = torch.rand(max(3, moved_bytes // 4), dtype=torch.float32, device=device.place)
    blocks = numbers.repeat(sets_needed(moved_bytes, device.cache().nbytes, cache), 1)
    turn = itertools.count()
    turns = {}
    for name, (copy, count) in copies.items():
        each = max(1, len(numbers) // count // 16 * 16)  # whole cache lines
        sets = [block[: count * each].view(count, each) for block in blocks]
        turns[name] = _turns(copy, sets, turn)
    return turns


def _round(
    device: Cpu | Cuda, turns: Mapping, warm: bool, names: list[str], keep: bool
) -> dict[str, Sample]:
    """Everybody's next call, in this order."""
    calls = [next(turns[name]) for name in names]
    return dict(zip(names, device.round(calls, keep=keep, warm=warm), strict=True))


def _loop(
    a_round: Callable,
    names: list[str],
    clock: Callable[[], float],
    *,
    seed: int,
    rounds: int,
    warmup: int,
    seconds: float | None,
) -> dict[str, list[Sample]]:
    """Samples by contender; those of the last round carry the outputs."""
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    order = random.Random(seed)
    with _no_collection():
        for _ in range(warmup):
            a_round(names, False)
        start = clock()
        for done in itertools.count():
            spent = clock() - start
            a_round_takes = spent / max(done, 1)
            # this round and one more, since only the last round keeps the outputs
            late = seconds is not None and spent + 2 * a_round_takes > seconds
            last = done + 1 >= rounds or (late and done + 1 >= FEWEST_IN_TIME)
            names_in_order = order.sample(names, len(names))
            for name, sample in a_round(names_in_order, last).items():
                samples[name].append(sample)
            if last:
                break
    return samples


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the garbage collector: a collection would be counted as somebody's time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _clock_went_on(samples: Mapping[str, list[Sample]]) -> None:
    for name, own in samples.items():
        shortest = min(sample.device_s for sample in own)
        if shortest <= 0:
            raise TimingError(
                f"{name!r} took {shortest} s: the clock stood still or went back. "
                "Use a clock that is monotonic and fine enough (time.perf_counter), "
                "or larger inputs.",
                name,
            )


def _output(name: str, last: Sample, judge: Judge) -> Output:
    """The output of the last timed round, held against the truth once more."""
    got = outputs(name, last.output)
    dtypes = {str(y.dtype).removeprefix("torch.") for y in got}
    return Output(", ".join(sorted(dtypes)), judge.error(name, got))


def _hosts(device: Cpu | Cuda, samples: Mapping[str, list[Sample]]) -> dict | None:
    if isinstance(device, Cpu):
        return None
    return {name: [sample.host_s for sample in own] for name, own in samples.items()}


def _unwitnessed(device: Cpu | Cuda, turns: Mapping, result: Result) -> list[str]:
    """Contenders whose calls, waited for, take much longer than host and device together."""
    flags = []
    for row in result.rows:
        calls = [[next(turns[row.name]) for _ in range(5)] for _ in range(3)]
        walls = [wall for wall in map(device.whole, calls) if wall is not None]
        if walls and min(walls) > 1.5 * (row.host_s + row.median_s) + 2e-5:
            flags.append(
                f"{row.name}: synchronisation is missing, "
                f"a call that is waited for takes {in_words(min(walls))}, "
                f"and the times say {in_words(row.median_s)}: "
                "work goes on outside of what was timed (another stream, "
                "or a clock that does not wait)"
            )
    return flags
