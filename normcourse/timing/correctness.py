"""Whether what is timed is right: each contender's outputs against the truth in float64."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from normcourse.timing.errors import TimingError
from normcourse.timing.inputs import twin
from normcourse.timing.passes import timed_pass

# About four roundings for the half types; room for long sums in float32, where a wrong formula is
# far off.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3.2e-2}


def outputs(name: str, value: object) -> tuple[Tensor, ...]:
    value = (value,) if isinstance(value, Tensor) else value
    if not isinstance(value, tuple | list) or not all(isinstance(y, Tensor) for y in value):
        raise TimingError(
            f"{name!r} returned {type(value).__name__}, expected a tensor or a tuple of tensors: "
            f"without outputs nothing shows that it computed what the others did. Return them.",
            name,
        )
    for index, y in enumerate(value):
        if y.is_complex():
            raise TimingError(
                f"{name!r} returned {y.dtype} as output {index}, expected real numbers: "
                "the judge compares no imaginary parts. Return torch.view_as_real of it.",
                name,
            )
    return tuple(value)


class Judge:
    """Holds the truth in float64 and each contender's outputs against it."""

    def __init__(
        self,
        reference: Callable | Mapping[str, Callable] | None,
        inputs: tuple[Tensor, ...],
        tolerance: float | None,
    ) -> None:
        self.tolerance = tolerance
        self.one_truth = not isinstance(reference, Mapping)
        references: dict = dict(reference) if isinstance(reference, Mapping) else {None: reference}
        exact = tuple(x.double() if x.is_floating_point() else x for x in inputs)
        functions = {f for f in references.values() if f is not None}
        known = {f: outputs("reference", f(*exact)) for f in functions}
        self.truth = {name: known.get(f) for name, f in references.items()}

    def first_look(self, candidates: Mapping[str, Callable], inputs: tuple[Tensor, ...]) -> None:
        """TimingError unless all time the same pass, give like outputs and leave inputs alone."""
        _same({name: timed_pass(f) for name, f in candidates.items()}, "different passes")
        kinds: dict[str, list] = {}
        for name, candidate in candidates.items():
            got = _first_call(name, candidate, inputs)
            if self.one_truth:
                kinds[name] = [(str(y.dtype), tuple(y.shape), y.requires_grad) for y in got]
            else:  # of different functions: as many outputs as each one has
                kinds[name] = sorted({(str(y.dtype), y.requires_grad) for y in got})
            self.error(name, got)
        _same(kinds, "outputs of different dtype, shape or requires_grad")

    def error(self, name: str, got: tuple[Tensor, ...]) -> float | None:
        """The largest |y - truth| / (|truth| + rms of truth); TimingError beyond the tolerance."""
        truth = self.truth.get(None if self.one_truth else name)
        if truth is None:
            return None
        if [y.shape for y in got] != [t.shape for t in truth]:
            shapes = [[tuple(y.shape) for y in side] for side in (got, truth)]
            raise TimingError(
                f"{name!r} gave shapes {shapes[0]}, its reference {shapes[1]}. "
                "Time the same function.",
                name,
            )
        pairs = enumerate(zip(got, truth, strict=True))
        return max(self._one_error(name, index, *pair) for index, pair in pairs)

    def _one_error(self, name: str, index: int, y: Tensor, truth: Tensor) -> float:
        allowed = TOLERANCE.get(y.dtype, 0.0) if self.tolerance is None else self.tolerance
        error = _distance(y.detach().double(), truth.double())
        if not error <= allowed:
            raise TimingError(
                f"{name!r} is wrong: output {index} differs from the float64 reference "
                f"by {error:.2g} of |truth| + rms, allowed is {allowed:.2g}. "
                "Mend it, or state its tolerance, first.",
                name,
            )
        return error


def _first_call(name: str, candidate: Callable, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    own = tuple(twin(x) for x in inputs)
    try:
        got = outputs(name, candidate(*own))
    except TimingError:
        raise
    except Exception as error:
        raise TimingError(
            f"{name!r} raises {type(error).__name__} on these inputs: {error}", name
        ) from error
    for index, (before, after) in enumerate(zip(inputs, own, strict=True)):
        if not torch.equal(before, after):
            raise TimingError(
                f"{name!r} overwrote input {index}: "
                "from the second call on, everyone would be timed on something else. "
                "Make it work out of place.",
                name,
            )
    return got


def _distance(y: Tensor, truth: Tensor) -> float:
    if not truth.numel():
        return 0.0
    scale = truth.abs() + truth.square().mean().sqrt()
    error = (y - truth).abs()
    return (error / scale).where(error != 0, 0.0).max().item()  # 0 / 0: truth of zeros, met exactly


def _same(kinds: Mapping[str, object], what: str) -> None:
    (first, expected), *others = kinds.items()
    for name, kind in others:
        if kind != expected:
            raise TimingError(
                f"Contenders with {what}: {first!r} has {expected}, {name!r} has {kind}. "
                "They do not do the same work: convert inside the candidate, or time them apart."
            )
