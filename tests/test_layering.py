"""Who may import whom: MAY_IMPORT."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.named_things import shown
from tests.planting import one_of_each_folder, plant, python_files

ROOT = Path(__file__).parents[1]
HOUSES = ["normlib", "normcourse"]
FILES = sorted(path for house in HOUSES for path in (ROOT / house).rglob("*.py"))
MAY_IMPORT = {  # room -> the rooms it may import
    "functional": set(),
    "kernels": set(),
    # its checks of arguments, no formula: see the second witness below
    "gradients": {"functional"},
    # functional: the same checks, and vmap and torch.func
    "fused": {"functional", "gradients", "kernels"},
    "layers": {"functional", "fused"},
    "surgery": {"layers"},
    "normlib": {"functional", "gradients", "layers", "fused"},
    "computing": set(),
    "lesson": set(),
    "palette": set(),
    "measures": {"computing"},
    "figures": {"palette"},
    "atomic": set(),
    "jsonfile": {"atomic"},
    "timing": {"computing", "jsonfile"},
    "training": {"layers", "surgery", "computing", "jsonfile", "atomic"},
    "progress": {"atomic"},
    "capstone": {"measures", "training"},
    "checks": {
        "functional", "gradients", "layers", "fused", "surgery", "measures", "timing", "training",
        "computing", "progress",
    },
    "normcourse": {"computing"},
}  # fmt: skip
ONLY_IN = {
    "matplotlib": {"figures"},
    "mnist1d": {"training"},
    "sklearn": set(),
    "tqdm": {"training"},
}
TRITON = {"kernels", "timing"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MODULE = {"pillow": "PIL", "ipython": "IPython", "scikit-learn": "sklearn"}  # else as on the index


def declared(requirements):
    """The modules that these lines of pyproject.toml bring."""
    names = {canonicalize_name(Requirement(line).name) for line in requirements}
    return {MODULE.get(name, name) for name in names}


LIBRARY_NEEDS = declared(PROJECT["project"]["dependencies"])
COURSE_NEEDS = declared(PROJECT["project"]["optional-dependencies"]["lab"])


def house(path):
    return path.relative_to(ROOT).parts[0]


def room(path):
    """The folder or file below its house; the house itself for its __init__.py."""
    inside = path.relative_to(ROOT).with_suffix("").parts[1]
    return house(path) if inside == "__init__" else inside


def imported(tree):
    """Dotted names that a file imports, wherever in it; `from a import b` gives a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def rooms_used(tree):
    """The rooms of ours that a file imports from."""
    known = {room(path) for path in FILES}
    ours = (name.split(".") for name in imported(tree) if name.split(".")[0] in HOUSES)
    return {parts[1] for parts in ours if len(parts) > 1} & known


def each_file(test):
    return pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))(
        test
    )


@each_file
def test_imports_go_one_way(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert rooms_used(tree) - {room(path)} <= MAY_IMPORT[room(path)]
    for name in imported(tree):
        package = name.split(".")[0]
        assert room(path) in ONLY_IN.get(package, {room(path)}), name
        assert package != "triton" or room(path) in TRITON, name


@each_file
def test_what_a_file_imports_is_declared_and_the_library_never_needs_the_course(path):
    packages = {name.split(".")[0] for name in imported(ast.parse(path.read_text("utf-8")))}
    packages -= {"normlib", "triton", *sys.stdlib_module_names}  # triton: see TRITON
    if house(path) == "normlib":
        assert packages <= LIBRARY_NEEDS
    else:
        assert packages - {"normcourse"} <= LIBRARY_NEEDS | COURSE_NEEDS


def test_editions_import_no_tools():
    for path in python_files("editions"):
        assert not any(name.startswith("tools") for name in imported(ast.parse(path.read_text())))


def test_a_lesson_and_the_palette_are_read_without_torch_and_matplotlib():
    """So `make lab` and the decks start at once, and a plain Python reads a lesson."""
    script = """
import sys
sys.modules.update(dict.fromkeys(["torch", "matplotlib", "numpy", "nbformat"]))  # no import works
import normcourse.lesson, normcourse.palette, normcourse.atomic
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_the_declared_needs_are_read_from_pyproject():
    assert {"torch", "numpy"} == LIBRARY_NEEDS
    assert {"IPython", "PIL", "matplotlib", "mnist1d", "scipy", "sklearn", "triton"} <= COURSE_NEEDS


def test_every_file_of_both_houses_is_looked_at():
    assert python_files(*HOUSES) == FILES


@pytest.mark.parametrize("path", one_of_each_folder(FILES), ids=shown)
def test_a_wrong_import_is_seen_in_every_folder(monkeypatch, path):
    plant(monkeypatch, [path], lambda text: f"{text}\nimport sklearn\n")
    with pytest.raises(AssertionError, match="sklearn"):
        test_imports_go_one_way(path)
    plant(monkeypatch, [path], lambda text: f"{text}\nimport nobody_declared_it\n")
    with pytest.raises(AssertionError, match="nobody_declared_it"):
        test_what_a_file_imports_is_declared_and_the_library_never_needs_the_course(path)


PLAIN_MODULES = {"math", "collections", "torch", "normlib"}
NOT_PLAIN = {"autograd", "grad", "backward", "requires_grad_", "func", "functional", "nn"}


CHECKS = "normlib.functional.validation"  # which may be imported: it holds no formula


def not_plain(tree):
    """What a file uses beside plain arithmetic and checks, as an attribute or by import."""
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    modules = {
        name for name in imported(tree) if name != CHECKS and not name.startswith(f"{CHECKS}.")
    }
    used |= {word for name in modules for word in name.split(".")}
    return (used & NOT_PLAIN) | ({name.split(".")[0] for name in modules} - PLAIN_MODULES)


def test_the_second_witness_uses_no_autograd():
    for path in FILES:
        if room(path) == "gradients":
            assert not_plain(ast.parse(path.read_text("utf-8"))) == set(), path


@pytest.mark.parametrize(
    "source",
    [
        "torch.autograd.grad(y, x)",
        "y.backward()",
        "from torch.autograd import grad",
        "from torch.nn.functional import layer_norm",
        "from normlib.functional import layer_norm",
        "from normlib.functional.arithmetic import standardize",
        "from normlib import functional",
        "import torch.func",
        "import numpy",
    ],
)
def test_what_is_not_plain_arithmetic_is_seen(source):
    assert not_plain(ast.parse(source))


def test_every_module_of_the_library_is_imported_without_the_packages_of_the_course():
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in FILES
        if house(path) == "normlib" and (room(path) != "kernels" or path.stem == "__init__")
    ]
    script = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({sorted(COURSE_NEEDS)!r}))  # None: importing it raises ImportError
for module in {modules!r}:
    importlib.import_module(module)
assert "normcourse" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


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
    assert rooms_used(ast.parse(source)) == found
