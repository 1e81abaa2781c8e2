"""The notebook tests can fail.

Each fault, put into a small stored notebook, turns its cell red, and no other.
"""

import base64
import copy
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image, ImageOps
from PIL.PngImagePlugin import PngInfo

from tests.notebooks import nbstrict, strict_runs
from tests.notebooks.lesson_rules import complaints
from tests.notebooks.strict_runs import printed, stored

ROOT = Path(__file__).resolve().parents[2]
FIGURE = """figure, axes = figures.subplots()
figures.line(axes, [1, 2, 3], [{0}, 2.0, 4.0], "layer_norm")
figures.show(figure, alt="A line that rises to 4.0 from a start at the height {0}.")"""
SOURCES = {  # cell id: source
    "imports": "import os, sys\nfrom normcourse import figures",
    "number": 'print(f"{3 / 7:.4f}")',
    "result": '"a value"',
    "removed": 'print("kept")',
    "extra": 'print("once")',
    "silent": "print(end='')",
    "cleared": "x = 1",
    "semicolon": "x + 1;",
    "curve": FIGURE.format(1.0),
    "other-curve": FIGURE.format(1.5),
    "alt-text": FIGURE.format(1.25),
    "raises": 'raise ValueError("meant")',
    "last": "x = 2",
}


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """The notebook as tools/notebooks.py stores it."""
    cells = [new_code_cell(source, id=name) for name, source in SOURCES.items()]
    cells[list(SOURCES).index("raises")].metadata["tags"] = ["raises-exception"]
    cells.insert(1, new_markdown_cell("Measured: 0.4286, see [this file](toy.ipynb).", id="text"))
    path = tmp_path_factory.mktemp("stored") / "toy.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    environment = os.environ | {"NORMLIB_FRESH_KERNELS": "1"}  # quicker for a single notebook
    command = [sys.executable, "-m", "tools.notebooks", path]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return path


def with_faults(toy, path, faults):
    """A copy of the notebook with faults in it.

    `faults` maps cell ids to functions that change the cell, given all cells.
    """
    notebook = nbformat.read(toy, as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    untouched = copy.deepcopy(cells)
    for name, fault in faults.items():
        fault(cells[name], untouched)
    nbformat.write(notebook, path)
    return path


def fault(**changes):
    """A fault that replaces fields of a cell."""
    return lambda cell, _: cell.update(copy.deepcopy(changes))


def replace_picture(cell, cells):
    cell.outputs[0].data["image/png"] = cells["other-curve"].outputs[0].data["image/png"]


def remove_picture(cell, _):
    del cell.outputs[0].data["image/png"]


def delete_alt_text(cell, _):
    cell.outputs[0].metadata = {}


def change_alt_text(cell, _):
    cell.outputs[0].metadata["image/png"]["alt"] = (
        "A line that rises to 9.9 from a start at the height 1.25."
    )


def png(image, **options):
    file = io.BytesIO()
    image.save(file, "png", **options)
    return base64.b64encode(file.getvalue()).decode()


def mirror_picture(cell, _):
    """As if it were the one that the cell drew: with the fingerprint that the drawn one carries."""
    data = cell.outputs[0].data
    picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")
    carried = PngInfo()
    carried.add_itxt("Fingerprint", data["text/plain"])
    data["image/png"] = png(ImageOps.mirror(picture), pnginfo=carried)


STDERR = new_output("stream", name="stderr", text="a warning\n")
STATIC_FAULTS = {  # fault: (cell, change, the one rule that sees it)
    "cleared cell": ("cleared", fault(execution_count=None), "execution_counts"),
    "scrambled counts": ("number", fault(execution_count=9), "execution_counts"),
    "replaced picture": ("curve", replace_picture, "pictures"),
    "removed picture": ("curve", remove_picture, "pictures"),
    "deleted alt text": ("curve", delete_alt_text, "pictures"),
    "stderr": ("silent", fault(outputs=[STDERR]), "errors_and_warnings"),
    "skip tag": ("number", fault(metadata={"tags": ["nbval-skip"]}), "known_tags"),
    "misspelt skip tag": ("number", fault(metadata={"tags": ["nbval_skip"]}), "known_tags"),
    "misspelt exception tag": (
        "number",
        fault(metadata={"tags": ["raises_exception"]}),
        "known_tags",
    ),
    "ignore tag": ("number", fault(metadata={"tags": ["nbval-ignore-output"]}), "live_cells"),
    "skip comment": ("last", fault(source="# NBVAL_SKIP\nx = 2"), "known_tags"),
    "raises nothing": ("raises", fault(source="x = 3", outputs=[]), "errors_and_warnings"),
    "wrong number in the text": ("text", fault(source="Measured: 0.4287."), "measured_numbers"),
}
KERNEL_FAULTS = {  # cell: (change, what strict nbval says)
    "number": (fault(outputs=[new_output("stream", text="0.4287\n")]), "mismatch 'stdout'"),
    "result": (fault(source='"another value"'), "mismatch 'text/plain'"),
    "removed": (fault(outputs=[]), "Unexpected output fields"),
    "extra": (fault(source='print("once"); "twice"'), "Unexpected output fields"),
    "silent": (fault(source='print("a warning", file=sys.stderr)'), "Unexpected output fields"),
    "cleared": (fault(execution_count=None, source="x = 1"), "never executed"),
    "semicolon": (fault(source="1 + 1"), "Unexpected output fields"),
    "curve": (fault(source=FIGURE.format(1.01)), "mismatch 'text/plain'"),
    "other-curve": (mirror_picture, "picture 1 is not the stored one"),
    "alt-text": (change_alt_text, "mismatch 'alt text'"),
    "raises": (fault(source="x = 3", outputs=[]), "raised nothing"),
    "last": (fault(source="os._exit(1)"), "the kernel died"),
}


@pytest.mark.selftest
def test_the_notebook_without_a_fault_keeps_the_rules(toy):
    assert complaints(toy) == {}


@pytest.mark.selftest
@pytest.mark.parametrize("name", STATIC_FAULTS)
def test_fault_is_seen_by_one_rule(toy, tmp_path, name):
    cell, change, rule = STATIC_FAULTS[name]
    broken = with_faults(toy, tmp_path / "toy.ipynb", {cell: change})
    found = complaints(broken)
    assert set(found) == {rule}
    assert all(message.startswith(f"{cell}: ") for message in found[rule])


@pytest.mark.selftest
def test_cleared_notebook_is_seen(toy, tmp_path):
    cleared = fault(execution_count=None, outputs=[])
    broken = with_faults(toy, tmp_path / "toy.ipynb", dict.fromkeys(SOURCES, cleared))
    assert len(complaints(broken)["execution_counts"]) == len(SOURCES)


@pytest.fixture(scope="session")
def reports(toy, tmp_path_factory):
    """What strict nbval says of each cell of the toy and of a copy full of faults.

    It says "" where a cell is green.
    """
    folder = tmp_path_factory.mktemp("faults")
    changes = {cell: change for cell, (change, _) in KERNEL_FAULTS.items()}
    broken, report = with_faults(toy, folder / "broken.ipynb", changes), folder / "report.xml"
    arguments = strict_runs.arguments(folder, report, toy, broken)
    command = [sys.executable, "-m", "pytest", "-p", "tests.notebooks.nbstrict", *arguments]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    return strict_runs.said_of(report)


@pytest.mark.selftest
def test_the_notebook_without_a_fault_is_green(reports):
    assert reports["toy"] == dict.fromkeys(SOURCES, "")


@pytest.mark.selftest
@pytest.mark.parametrize("cell", SOURCES)
def test_fault_turns_its_cell_red_and_no_other(reports, cell):
    _, expected = KERNEL_FAULTS.get(cell, (None, ""))
    said = reports["broken"][cell]
    assert expected in said if expected else said == ""


HANGS = """import time
try:
    time.sleep(1000)
except KeyboardInterrupt:
    pass"""
ENDS = {  # what the second cell does: what is said of it
    "a cell that runs too long": ("import time; time.sleep(1000)", "the cell ran longer than 2 s"),
    "a cell that cannot be stopped": (HANGS, "the cell ran longer than 2 s"),
    "a kernel that dies": ("import os; os._exit(1)", "the kernel died"),
}


@pytest.fixture(scope="session")
def ends(tmp_path_factory):
    """What pytest says of three notebooks of four cells.

    Their second cell ends the kernel's use.
    """
    folder = tmp_path_factory.mktemp("ends")
    for number, (source, _) in enumerate(ENDS.values()):
        sources = {"before": "x = 1", "end": source, "after": "y = x", "last": "y"}
        cells = [new_code_cell(text, id=cell, execution_count=1) for cell, text in sources.items()]
        nbformat.write(new_notebook(cells=cells), folder / f"{number}.ipynb")
    limit = "from tests.notebooks import nbstrict\n\nnbstrict.CELL_TIMEOUT_S = 2\n"
    (folder / "two_seconds.py").write_text(limit)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-rs",
        "-p",
        "tests.notebooks.nbstrict",
        "-p",
        "two_seconds",
    ]
    command += ["--color=no", "-c", ROOT / "pyproject.toml", f"--rootdir={folder}", folder]
    python_path = os.pathsep.join([str(folder), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": python_path, "NORMLIB_FRESH_KERNELS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True).stdout


@pytest.mark.selftest
def test_a_cell_that_ends_its_kernel_is_the_only_failure_of_its_notebook(ends):
    assert "3 failed, 3 passed, 6 skipped" in ends


@pytest.mark.selftest
@pytest.mark.parametrize("number", range(len(ENDS)), ids=list(ENDS))
def test_a_cell_that_ends_its_kernel_says_so_once(ends, number):
    _, reason = list(ENDS.values())[number]
    assert f"{number}.ipynb, cell end: {reason}; the 2 cells after this one were not run" in ends
    assert ends.count(f": not run: {reason} in {number}.ipynb, cell end\n") == 1


# The same in a second, for `make test`: the outputs are written here, and nothing draws a figure.

ALT = "Black that turns white."
GRADIENT = Image.linear_gradient("L")
PICTURE = png(GRADIENT)
DATA = {"text/plain": "a picture", "image/png": PICTURE}
DISPLAY = f"display({DATA}, raw=True, metadata={ {'image/png': {'alt': ALT}} })"


def shown(picture=PICTURE, alt=ALT):
    about = {"image/png": {"alt": alt}}
    return new_output("display_data", DATA | {"image/png": picture}, metadata=about)


RAISES = {"tags": ["raises-exception"]}
WITNESS = {  # cell: (the cell as it is stored, what strict nbval says)
    "same": (stored("print(6 * 7)", [printed("42")]), ""),
    "other-number": (stored("print(6 * 7)", [printed("43")]), "mismatch 'stdout'"),
    "lost-output": (stored("print(6 * 7)", []), "Unexpected output fields"),
    "semicolon": (stored("6 * 7;", []), ""),
    "picture": (stored(DISPLAY, [shown()]), ""),
    "upside-down": (
        stored(DISPLAY, [shown(png(ImageOps.flip(GRADIENT)))]),
        "is not the stored one",
    ),
    "other-alt": (stored(DISPLAY, [shown(alt="Grey.")]), "mismatch 'alt text'"),
    "raises": (stored("x = 3", [], metadata=RAISES), "raised nothing"),
    "never-run": (stored("x = 3", [], execution_count=None), "never executed"),
    "dies": (stored("import os; os._exit(1)", []), "the kernel died; the 1 cells after this one"),
    "behind": (stored("x = 3", []), "not run: the kernel died in small.ipynb, cell dies"),
}


def test_strict_nbval_sees_what_differs_and_nothing_else(tmp_path):
    cells = {name: cell for name, (cell, _) in WITNESS.items()}
    # the limit of a test is none for a cell: that a kernel died shows after a second
    said = strict_runs.said_here(tmp_path, cells, "--timeout=0.5")
    assert said.keys() == WITNESS.keys()
    for name, (_, expected) in WITNESS.items():
        assert expected in said[name] if expected else said[name] == "", said[name]
    advised = {name for name, text in said.items() if "make notebooks" in text}
    assert advised == {
        "other-number",
        "lost-output",
        "upside-down",
        "other-alt",
        "raises",
        "never-run",
    }  # and not where a kernel died: it has no new result to store


@pytest.mark.slow
def test_a_cell_that_never_ends_is_stopped_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(nbstrict, "CELL_TIMEOUT_S", 1)
    cells = {
        "end": stored("import time; time.sleep(10_000)", []),
        "behind": stored("x = 3", []),
    }
    said = strict_runs.said_here(tmp_path, cells)
    assert "the cell ran longer than 1 s; the 1 cells after this one" in said["end"]
    assert "not run: the cell ran longer than 1 s" in said["behind"]


def config(**options):
    return SimpleNamespace(
        option=SimpleNamespace(**{"nbval_lax": False, "nbval": True, "dist": "no"} | options)
    )


@pytest.mark.parametrize("options", [{"nbval_lax": True}, {"dist": "load"}], ids=str)
def test_settings_that_would_not_compare_are_refused(options):
    with pytest.raises(pytest.UsageError):
        nbstrict.pytest_configure(config(**options))


def test_settings_that_compare_are_accepted():
    nbstrict.pytest_configure(config(dist="loadfile"))


@pytest.mark.parametrize(
    ("platform", "installed", "runs"),
    [("linux", False, True), ("darwin", False, False), ("win32", True, True)],
)
def test_triton_cells_are_left_out_only_where_triton_has_no_wheel(
    monkeypatch, platform, installed, runs
):
    monkeypatch.setattr(nbstrict.sys, "platform", platform)
    monkeypatch.setattr(
        nbstrict.importlib.util, "find_spec", lambda _: object() if installed else None
    )
    assert nbstrict.triton_runs_here() == runs
