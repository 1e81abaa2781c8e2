"""Who may import whom (DESIGN.md, section 1), and how large a file and a function may be."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "normlib").rglob("*.py"))
LEAVES = {"functional", "gradients", "kernels", "timing", "diagnostics", "figures"}
MAY_IMPORT = {  # part of normlib -> the other parts it may import
    **{leaf: set() for leaf in LEAVES},
    "layers": {"functional", "fused"},
    "fused": {"functional", "kernels", "gradients"},  # functional: the same checks, and vmap and torch.func
    "surgery": {"layers"},
    "training": {"layers"},
    "exercises": {"functional", "gradients", "layers", "fused", "diagnostics", "surgery", "timing"},
    "__init__": {"functional", "gradients", "layers", "diagnostics", "fused"},
}
ONLY_IN = {"matplotlib": {"figures"}, "triton": {"kernels"}, "sklearn": {"training"}, "tqdm": {"training"}}
HEAVY = {"triton", "matplotlib", "sklearn", "tqdm"}


def part(path):
    return path.relative_to(ROOT / "normlib").with_suffix("").parts[0]


def imported(tree):
    """Dotted names that a file imports, wherever in it; `from a import b` gives a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def parts_of_normlib(tree):
    known = {part(path) for path in FILES}
    return {name.split(".")[1] for name in imported(tree) if name.startswith("normlib.")} & known


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    tree, own = ast.parse(path.read_text("utf-8")), part(path)
    assert parts_of_normlib(tree) - {own} <= MAY_IMPORT[own]
    for name in imported(tree):
        assert own in ONLY_IN.get(name.split(".")[0], {own}), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes(path):
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = node.body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= 25, f"{node.name}: {lines} lines"


PLAIN_MODULES = {"math", "collections", "torch", "normlib"}
NOT_PLAIN = {"autograd", "grad", "backward", "requires_grad_", "func", "functional", "nn"}


def not_plain(tree):
    """What a file uses beside plain arithmetic, as an attribute or by import."""
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    modules = set(imported(tree))
    used |= {word for name in modules for word in name.split(".")}
    return (used & NOT_PLAIN) | ({name.split(".")[0] for name in modules} - PLAIN_MODULES)


def test_the_second_witness_uses_no_autograd():
    for path in FILES:
        if part(path) == "gradients":
            assert not_plain(ast.parse(path.read_text("utf-8"))) == set(), path


@pytest.mark.parametrize(
    "source",
    [
        "torch.autograd.grad(y, x)",
        "y.backward()",
        "from torch.autograd import grad",
        "from torch.nn.functional import layer_norm",
        "import torch.func",
        "import numpy",
    ],
)
def test_what_is_not_plain_arithmetic_is_seen(source):
    assert not_plain(ast.parse(source))


def test_import_is_light():
    absent = (
        f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r}))"  # None: importing it raises ImportError
    )
    subprocess.run([sys.executable, "-c", f"{absent}; import normlib"], check=True)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from normlib import functional", {"functional"}),
        ("from normlib.functional import rms_norm", {"functional"}),
        ("def f():\n    import normlib.layers", {"layers"}),
        ("import torch", set()),
    ],
)
def test_the_reader_of_imports_sees_them_all(source, found):
    assert parts_of_normlib(ast.parse(source)) == found
