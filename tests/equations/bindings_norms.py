"""Bindings that follow from the registry of norms: of a row's own equation and its gradients."""

from tests.equations.bindings import D, N, bind, on_arrays
from tests.library.norm_cases import ROWS

LETTERS = {"weight": "w", "bias": "b", "shift": "s", "eps": "varepsilon"}


def letter(name):
    return LETTERS.get(name, name)


def drawn(case, draw, *shape):
    """Input and parameters, and all that the equations name beside outputs and gradients."""
    x, parameters = draw(*shape), [draw(*size(shape)) for size in case.parameters.values()]
    names = list(case.parameters)
    if case.positive:
        at = names.index(case.positive)
        parameters[at] = parameters[at].exp()
    values = dict(zip(names, parameters, strict=True)) | case.options(shape)
    symbols = {
        letter(name): value.item() if getattr(value, "shape", None) == (1,) else value
        for name, value in values.items()
    }
    others = {
        name: on_arrays(value) if callable(value) else value
        for name, value in case.symbols(x, *parameters).items()
    }
    return [x, *parameters], {"x": x, "D": D, "N": N, **symbols, **others}


def forward(case):
    def of_row(draw):
        tensors, symbols = drawn(case, draw, D)
        return symbols | {"y": case.call(*tensors)}

    return named(of_row, case)


def backward(case):
    def of_row(draw):
        tensors, symbols = drawn(case, draw, N, D)
        dy = draw(N, D)
        dx, *others = case.backward(dy, *tensors)
        found = {"dL_dy": dy, "dL_dx": dx}
        for name, gradient in zip(case.parameters, others, strict=True):
            found[f"dL_d{letter(name)}"] = gradient.item() if gradient.shape == (1,) else gradient
        return symbols | found

    return named(of_row, case)


def named(binding, case):
    """The binding under a name that sends to the row, where a letter is missing."""
    binding.__name__ = f"the row {case.name} of tests/library/norm_cases.py (symbols=)"
    return binding


for case in ROWS:
    if case.equation:
        bind(case.equation)(forward(case))
    if case.equation and case.witness("backward"):
        bind(f"{case.equation}-GRAD")(backward(case))
