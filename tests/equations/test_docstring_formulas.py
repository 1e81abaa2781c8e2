"""Formulas in normlib's docstrings are evaluated, and compared with autograd.

The docstrings state them in plain text.
"""

import math
import re

import pytest
import torch

from normlib import functional, fused, gradients
from tests.equations.bindings_norms import letter
from tests.library.norm_cases import ROWS

FORMULA = r"(?<![\w.]){name} = (.+?)(?=,   |;   |; |\. |,? in input|  \[|: |\.?$)"
ATOM = re.compile(r"\s+|[A-Za-z_]\w*|\d+(?:\.\d+)?|\|[^|]+\||[-+*/^()]")
EPS, CAP, SCALE = 0.3, 1.7, 2.5  # far from 1 and from each other, so that a slip shows


def formula(function, name: str) -> str:
    found = re.search(FORMULA.format(name=name), function.__doc__, re.M)
    assert found, f"{function.__name__}'s docstring states no {name} = …"
    return found[1]


def python(text: str) -> str:
    """w x / sqrt(x^2) as Python.

    A space multiplies, ^ is a power, |v| a length, and sum goes to the end.
    """
    text = re.sub(r"(-?)\bsum (?:over the rows of )?(?=\w)(.+)$", r"\1sum(\2)", text)
    text = re.sub(r"\|\|(.+?)\|\|", r"|\1|", text)
    parts = [part for part in ATOM.findall(text) if part]
    assert "".join(parts) == text, f"not in the dialect: {text!r}"
    out = []
    for part in parts:
        if part.isspace():
            out.append(" ")
            continue
        follows = len(out) > 1 and out[-1] == " " and re.match(r"[\w)|]", out[-2][-1])
        if follows and re.match(r"[\w(|]", part):
            out.append("* ")
        part = "**" if part == "^" else part
        out.append(f"length({part[1:-1]})" if part.startswith("|") else part)
    return "".join(out)


def evaluated(function, name: str, env: dict, axis: int = -1) -> torch.Tensor:
    names = {
        "sqrt": lambda value: torch.as_tensor(value).sqrt(),
        "tanh": torch.tanh,
        "erf": torch.erf,
        "exp": torch.exp,
        "pi": math.pi,
        "mean": lambda value: value.mean(axis, keepdim=True),
        "sum": lambda value: value.sum(axis, keepdim=True),
        "length": lambda value: value.norm(dim=-1, keepdim=True),
    }
    try:
        return eval(python(formula(function, name)), {"__builtins__": {}}, names | env)
    except NameError as unknown:
        fault = f"{function.__name__}'s docstring, {name} = …: {unknown}. State it in a formula"
        pytest.fail(f"{fault} before, or among symbols= of the row in tests/library/norm_cases.py.")


def draw(*shape):
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))
    )


@pytest.fixture
def env():
    x = draw(5, 4) + 0.7
    return {
        "x": x.requires_grad_(),
        "w": draw(4, 1)[:, 0].requires_grad_(),
        "b": draw(2, 2).flatten().requires_grad_(),
        "alpha": torch.tensor([0.8], dtype=torch.float64, requires_grad=True),
        "s": torch.tensor([0.4], dtype=torch.float64, requires_grad=True),
        "c": torch.tensor([1.3], dtype=torch.float64, requires_grad=True),
        "dy": draw(5, 4).flip(0),
        "eps": EPS,
        "cap": CAP,
        "scale": SCALE,
    }


def statistics(env, axis):
    mean = env["x"].mean(axis, keepdim=True)
    var = env["x"].var(axis, correction=0, keepdim=True)
    s = (var + EPS).sqrt()
    return {
        "mean": mean,
        "var": var,
        "s": s,
        "xhat": (env["x"] - mean) / s,
        "g": (env["w"] * env["dy"]),
    }


FORWARD = {
    fused.rms_norm: lambda e: functional.rms_norm(e["x"], (4,), e["w"], EPS),
    fused.dyt: lambda e: functional.dyt(e["x"], e["alpha"], e["w"], e["b"], scale=SCALE),
    functional.derf: lambda e: functional.derf(e["x"], e["alpha"], e["s"], e["w"], e["b"]),
    fused.dyisru: lambda e: functional.dyisru(e["x"], e["c"], e["w"], e["b"], scale=SCALE),
}
STANDARDIZE = {functional.layer_norm: -1, fused.layer_norm: -1, functional.batch_norm: 0}


@pytest.mark.parametrize(
    "function", FORWARD, ids=lambda function: f"{function.__module__}.{function.__name__}"
)
def test_an_output(env, function):
    assert torch.allclose(evaluated(function, "y", env), FORWARD[function](env))


@pytest.mark.parametrize("function", STANDARDIZE, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_a_standardized_output(env, function):
    axis = STANDARDIZE[function]
    there = env | statistics(env, axis)
    if axis == 0:
        expected = functional.batch_norm(
            env["x"], None, None, env["w"], env["b"], training=True, eps=EPS
        )
    else:
        expected = functional.layer_norm(env["x"], (4,), env["w"], env["b"], EPS)
    assert torch.allclose(evaluated(function, "y", there), expected)


def test_weight_normalization():
    v, g = draw(3, 4), draw(3, 1)
    there = {"v": v, "g": g}
    assert torch.allclose(
        evaluated(functional.weight_norm, "w", there), functional.weight_norm(v, g)
    )


def backward(env, out, **leaves):
    """name -> gradient of a leaf, by autograd."""
    found = torch.autograd.grad(out, list(leaves.values()), env["dy"])
    return dict(zip(leaves, found, strict=True))


def same(function, env, expected, axis=-1):
    for name, gradient in expected.items():
        value = evaluated(function, name, env, axis)
        assert torch.allclose(value.reshape(gradient.shape), gradient), name


def test_gradients_of_batch_norm(env):
    out = functional.batch_norm(env["x"], None, None, env["w"], env["b"], training=True, eps=EPS)
    expected = backward(env, out, dx=env["x"], dw=env["w"], db=env["b"])
    same(gradients.batch_norm_backward, env | by_name(statistics(env, 0)), expected, axis=0)


def test_gradients_of_layer_norm(env):
    out = functional.layer_norm(env["x"], (4,), env["w"], env["b"], EPS)
    same(
        gradients.layer_norm_backward,
        env | by_name(statistics(env, -1)),
        backward(env, out, dx=env["x"]),
    )


def by_name(values):
    """The statistics without mean, which a gradient's formula uses as a function."""
    return {name: value for name, value in values.items() if name != "mean"}


def test_gradients_of_derf(env):
    out = FORWARD[functional.derf](env)
    expected = backward(
        env, out, dx=env["x"], dalpha=env["alpha"], ds=env["s"], dw=env["w"], db=env["b"]
    )
    assert torch.allclose(evaluated(gradients.derf_backward, "derf", env), out)
    there = env | {"h": evaluated(gradients.derf_backward, "h", env)}
    for name in ("dalpha", "ds"):
        value = evaluated(gradients.derf_backward, name, there, axis=(0, 1))
        assert torch.allclose(value.flatten(), expected.pop(name)), name
    same(gradients.derf_backward, there, expected, axis=0)


def test_gradients_of_softmax(env):
    p = torch.softmax(env["x"], -1)
    there = {"p": p, "dp": env["dy"]}
    same(gradients.softmax_backward, there, backward(env, p, dx=env["x"]))


STATEMENT = re.compile(r"(?:^|,  ? ?)\s*(\w+) = ", re.M)
WITH_EQUATION = [case for case in ROWS if case.equation]


def of_row(case, shape):
    """Input and parameters of a row, and what its docstrings' letters mean."""
    tensors = [tensor.requires_grad_() for tensor in case.tensors(shape)]
    letters = {letter(name): value for name, value in case.arguments(shape, *tensors[1:]).items()}
    letters["eps"] = letters.pop("varepsilon", None)
    letters["scale"] = letters.get("scale", math.sqrt(shape[-1]))
    for name, value in case.symbols(*tensors).items():
        of_rows = isinstance(value, torch.Tensor) and value.dim() < len(shape)
        letters[{"hatx": "xhat"}.get(name, name)] = value.unsqueeze(-1) if of_rows else value
    return tensors, letters | {"x": tensors[0]}


@pytest.mark.parametrize("case", WITH_EQUATION, ids=str)
def test_the_output_of_a_row(case):
    function = getattr(functional, case.function)
    tensors, letters = of_row(case, (5, 4))
    for name in STATEMENT.findall(function.__doc__):
        assert name == "y"
        assert torch.allclose(evaluated(function, name, letters), case.formula(*tensors))


@pytest.mark.parametrize("case", [c for c in WITH_EQUATION if c.witness("backward")], ids=str)
def test_the_gradients_of_a_row(case):
    function = case.witness("backward")
    tensors, letters = of_row(case, (5, 4))
    dy = draw(5, 4).flip(0)
    output = case.formula(*tensors)
    grads = torch.autograd.grad(output, tensors, dy)
    wanted = dict(
        zip(["dx", *(f"d{letter(name)}" for name in case.parameters)], grads, strict=True)
    )
    stated = STATEMENT.findall(function.__doc__)
    assert "dx" in stated, f"{function.__name__} states no dx = …"
    there = letters | {"dy": dy}
    for name in stated:
        size = wanted[name].shape if name in wanted else None
        axis = -1 if name == "dx" or size is None else (0, 1) if size == (1,) else 0
        if name == "db" and size is None:
            continue  # of a row without bias
        value = evaluated(function, name, there, axis)
        if size is not None:
            assert torch.allclose(value.reshape(size), wanted[name]), name
        elif name == case.function:
            assert torch.allclose(value, output)
        else:
            there[name] = value


@pytest.mark.parametrize(
    "text", ["w x / r + b", "w (x - r)^2 / b", "-sum w x", "sum(w x) / r", "|x| sqrt(w)"]
)
def test_plain_text_is_read_as_meant(text):
    there = {"w": torch.tensor([2.0, 5.0]), "x": torch.tensor([3.0, 4.0]), "r": 7.0, "b": 11.0}
    w, x, r, b = there.values()
    meant = {
        "w x / r + b": w * x / r + b,
        "w (x - r)^2 / b": w * (x - r) ** 2 / b,
        "-sum w x": -(w * x).sum(),
        "sum(w x) / r": (w * x).sum() / r,
        "|x| sqrt(w)": 5 * w.sqrt(),
    }

    def stated():
        pass

    stated.__doc__ = f"Text.\n\n    y = {text}"
    assert torch.allclose(evaluated(stated, "y", there), meant[text])


TESTED = {*FORWARD, *STANDARDIZE, functional.weight_norm, gradients.batch_norm_backward}
TESTED |= {gradients.layer_norm_backward, gradients.softmax_backward, gradients.derf_backward}
TESTED |= {getattr(functional, case.function) for case in WITH_EQUATION}
TESTED |= {case.witness("backward") for case in WITH_EQUATION}


@pytest.mark.parametrize(
    "package", [functional, fused, gradients], ids=lambda package: package.__name__
)
def test_no_docstring_states_a_formula_that_nobody_evaluates(package):
    """A new formula `y = …`, `w = …` or `dx = …` needs a test above.

    Its function needs a place in TESTED.
    """
    for name in package.__all__:
        function = getattr(package, name)
        if re.search(r"(?m)^.*\b(y|w|dx) = ", function.__doc__ or "") and function not in TESTED:
            assert name in OTHERWISE, f"{name}: evaluate its formula in {__file__}"


@pytest.mark.parametrize("package", [functional, fused, gradients], ids=lambda p: p.__name__)
def test_a_formula_that_nobody_evaluates_is_seen_in_every_room(monkeypatch, package):
    def planted():
        """Planted.

        y = x + 1
        """

    monkeypatch.setattr(package, "planted", planted, raising=False)
    monkeypatch.setattr(package, "__all__", [*package.__all__, "planted"])
    with pytest.raises(AssertionError, match="planted: evaluate its formula"):
        test_no_docstring_states_a_formula_that_nobody_evaluates(package)


# dW is no gradient in the output: EQ-WN-GRAD is evaluated instead
OTHERWISE = {"weight_norm_backward"}
