"""What `make bench` measures: functions, their contenders, shapes, and what is to be reached."""

import importlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from normcourse import timing
from normlib import functional, fused

EPS = 1e-6
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
OPS = ("layer_norm", "rms_norm", "dyt", "dyisru")
ARTICLES = ((128, 512), (512, 1024), (2048, 2048))  # tokens, hidden
NOT_TIMED = {
    "layer_norm forward+backward bfloat16 on the CPU": (
        "torch adds the weight's gradient up in bfloat16, a tenth off at 2048 rows: "
        "the time of a wrong result is no contender's (normlib takes torch's)"
    )
}
WIDTHS = (4096, 1024, 8192, 16384)
# x, y; x, dy, dx; parameters left out
TENSORS_MOVED = {"forward": 2, "backward": 3, "forward+backward": 5}
IDLE = "idle"
LOADED = "one spinning process a core"
ENTRIES = {
    "forward": lambda f: f,
    "backward": timing.backward_of,
    "forward+backward": timing.forward_backward,
}


@dataclass(frozen=True)
class Case:
    """One measurement.

    `way` is "forward", "backward" or "forward+backward"; the record calls it "pass".
    """

    op: str
    way: str
    tokens: int
    hidden: int
    dtype: str
    allocator: str = "as it comes"
    load: str = IDLE

    def key(self) -> dict:
        """What the record calls it; a case without a load was measured on an idle machine."""
        key = asdict(self)
        key["pass"] = key.pop("way")
        if self.load == IDLE:
            del key["load"]
        return key

    def title(self) -> str:
        shape = f"{self.tokens} x {self.hidden}"
        title = f"{self.op} {self.way}, {shape}, {self.dtype}, allocator {self.allocator}"
        return title if self.load == IDLE else f"{title}, {self.load}"

    def compiles(self) -> bool:
        """Say whether torch.compile is among the contenders.

        On a CPU not everywhere: it takes longer than the timing.
        """
        if self.load != IDLE:
            return False
        long = {
            ("all", "forward+backward", "float32"),
            *((op, "forward", "bfloat16") for op in OPS),
        }
        return torch.cuda.is_available() or (self.op, self.way, self.dtype) not in long

    def moved_bytes(self) -> int:
        return TENSORS_MOVED[self.way] * self.tokens * self.hidden * DTYPES[self.dtype].itemsize

    def inputs(self, generator: torch.Generator) -> tuple[Tensor, ...]:
        """(dy,) x, weight, bias, parameter; drawn in the dtype itself, the parameter 0.5."""
        draw = partial(
            torch.randn, generator=generator, device=generator.device, dtype=DTYPES[self.dtype]
        )
        count = 1 if self.way == "forward" else 2
        rows = [draw(self.tokens, self.hidden) for _ in range(count)]
        weight = 1 + 0.1 * draw(self.hidden)
        bias = 0.1 * draw(self.hidden)
        if self.op == "rsqrt":
            return (rows[0].square() + EPS,)
        parameter = weight.new_full((1,), 0.5)
        return *rows, weight, bias, parameter


# Every contender of the norms is called as f(x, weight, bias, parameter) and uses what it has use
# for.
def _of(library, op: str) -> Callable:
    if op == "layer_norm":
        return lambda x, w, b, p: library.layer_norm(x, w.shape, w, b, EPS)
    if op == "rms_norm":
        return lambda x, w, b, p: library.rms_norm(x, w.shape, w, EPS)
    if op == "dyt":
        return lambda x, w, b, p: library.dyt(x, p, w, b)
    return lambda x, w, b, p: library.dyisru(x, p, w, b, scale=1.0)


def truth(op: str) -> Callable:
    """What float64 inputs are given to: torch's own norms, and the curves written out."""
    functions: dict[str, Callable] = {
        "layer_norm": _of(F, "layer_norm"),
        "rms_norm": _of(F, "rms_norm"),
        "dyt": lambda x, w, b, p: torch.tanh(p * x) * w + b,
        "dyisru": lambda x, w, b, p: x * (x * x + p) ** -0.5 * w + b,
        "rsqrt": lambda x: x**-0.5,
    }
    return functions[op]


def contenders(op: str, absent: dict[str, str], *, compiled: bool) -> dict[str, Callable]:
    """name: f for one function.

    Who should be there and is not is written into `absent`, with the reason.
    """
    if op == "rsqrt":
        return {"rsqrt": torch.rsqrt, "1/sqrt": lambda x: 1 / torch.sqrt(x)}
    found = {"torch": _of(F, op)} if op in ("layer_norm", "rms_norm") else {}
    found |= {"formula": _of(functional, op), "normlib": _of(fused, op)}
    if compiled and _has_compiler(absent):
        # static shapes, a function of its own for each case: nobody pays for another case's
        # generality
        found["compile"] = torch.compile(_of(functional, op), dynamic=False)
    return found | _peers(op, absent)


def _has_compiler(absent: dict[str, str]) -> bool:
    if (
        torch.cuda.is_available()
        or shutil.which("c++")
        or shutil.which("g++")
        or shutil.which("clang++")
        or shutil.which("cl")
    ):
        return True
    absent["compile"] = "no C++ compiler"
    return False


def _peers(op: str, absent: dict[str, str]) -> dict[str, Callable]:
    """Liger-Kernel and QuACK, where there is a GPU and they are installed."""
    peers = {}
    for name, (package, build) in PACKAGES.items():
        if not torch.cuda.is_available():
            absent[name] = "needs a GPU"
            continue
        try:
            peers[name] = build(importlib.import_module(package), op)
        except Exception as error:  # a peer that breaks at import is absent, whatever it raises
            absent[name] = f"not installed ({type(error).__name__})"
    return {name: peer for name, peer in peers.items() if peer is not None}


def _liger(liger, op: str) -> Callable | None:
    return {
        "layer_norm": lambda x, w, b, p: liger.liger_layer_norm(x, w, b, EPS),
        # its default writes dx over dy, which nobody may do to a tensor that is used again
        "rms_norm": lambda x, w, b, p: liger.liger_rms_norm(x, w, EPS, 0.0, "llama", False),
        "dyt": lambda x, w, b, p: liger.liger_dyt(x, p, w, b),
    }.get(op)


def _quack(quack, op: str) -> Callable | None:
    return {"rms_norm": lambda x, w, b, p: quack.rmsnorm(x, w, eps=EPS)}.get(op)


PACKAGES = {"liger": ("liger_kernel.transformers.functional", _liger), "quack": ("quack", _quack)}


def field(
    case: Case, absent: dict[str, str], *, compiled: bool
) -> tuple[dict[str, Callable], Callable | dict[str, Callable]]:
    """(candidates, reference) of a case.

    The case "all" puts every norm into one measurement, for paired ratios.
    """
    enter = ENTRIES[case.way]
    if case.op != "all":
        found = contenders(case.op, absent, compiled=compiled)
        return {name: enter(f) for name, f in found.items()}, _reference(case, case.op)
    candidates = {}
    references = {}
    for op in OPS:
        reference = _reference(case, op)
        for name, f in contenders(op, absent, compiled=compiled).items():
            candidates[f"{op} {name}"] = enter(f)
            references[f"{op} {name}"] = reference
    return candidates, references


def _reference(case: Case, op: str) -> Callable:
    exact = truth(op)
    return exact if case.way == "forward" else timing.forward_backward(exact)


def cpu_cases(allocator: str) -> Iterator[Case]:
    """Each norm alone in a large size; all against each other, at the articles' sizes; under load.

    Under load layer_norm is left out, which is torch's own, and so is the warm allocator.
    """
    for dtype in DTYPES:
        for op in OPS:
            for way in ("forward+backward", "forward"):
                if f"{op} {way} {dtype} on the CPU" not in NOT_TIMED:
                    yield Case(op, way, 2048, 4096, dtype, allocator)
    for tokens, hidden in ARTICLES:
        yield Case("all", "forward", tokens, hidden, "float32", allocator)
        yield Case("all", "forward+backward", tokens, hidden, "float32", allocator)
    yield Case("rsqrt", "forward", 2048, 4096, "float32", allocator)
    if allocator == "as it comes":
        for dtype in DTYPES:
            for op in ("rms_norm", "dyt", "dyisru"):
                yield Case(op, "forward+backward", 2048, 4096, dtype, allocator, LOADED)


def gpu_cases(allocator: str) -> Iterator[Case]:
    """bfloat16 first: it is what models are trained in, and an interrupted grid should hold it."""
    ways = ("forward", "backward")
    for tokens, hidden in ((8192, 4096), *ARTICLES):
        for way in ways:
            yield Case("all", way, tokens, hidden, "bfloat16", allocator)
    sizes = [(tokens, hidden) for hidden in WIDTHS for tokens in (8192, 2048, 32768)]
    for dtype in reversed(DTYPES):
        for tokens, hidden in [*sizes, (4096, 65536)]:
            for op in OPS:
                for way in ways:
                    yield Case(op, way, tokens, hidden, dtype, allocator)
