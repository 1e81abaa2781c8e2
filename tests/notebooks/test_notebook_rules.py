"""Each rule for stored notebooks complains about its fault, and about nothing in a sound lesson."""

import base64
import hashlib
import io

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image, PngImagePlugin

from tests.notebooks import (
    exercise_rules,
    formula_rules,
    prose_rules,
    reading_rules,
    reported_rules,
)
from tests.notebooks.lesson_rules import RULES, complaints

METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3"},
    "language_info": {"name": "python"},
}
DRAW = "x = torch.randn(2, generator=torch.Generator().manual_seed(0))"
VERDICT = "[ ] Exercise: not attempted yet\n"


def text(name, source):
    return new_markdown_cell(source, id=name)


def prints(words):
    return new_output("stream", name="stdout", text=words)


def picture(
    fingerprint="figure: 1 axes", alt="A line that falls from 0.75 to 0.25 over the steps."
):
    note, png = PngImagePlugin.PngInfo(), io.BytesIO()
    note.add_text("Fingerprint", fingerprint)
    Image.new("L", (1, 1)).save(png, "png", pnginfo=note)
    data = {"text/plain": fingerprint, "image/png": base64.b64encode(png.getvalue()).decode()}
    return new_output("display_data", data=data, metadata={"image/png": {"alt": alt}})


def lesson():
    """A small lesson that keeps every rule."""
    cells = [
        text(
            "title",
            "# Toy\n[Below](#10.-Sources) and [here](#toy). Falls by 0.125, about 0.13.\n\n"
            "Section 3.1, arXiv:1607.06450, `2.5`, $x = 3.5$.",
        ),
        new_code_cell("import torch\ntorch.set_default_dtype(torch.float64)", id="imports"),
        new_code_cell(DRAW, id="draw"),
        new_code_cell("print(1 / 8)", id="print", outputs=[prints("0.125\n")]),
        new_code_cell("figures.show(figure, alt=alt)", id="figure", outputs=[picture()]),
    ]
    for name in ("ex1", "ex2", "ex3"):
        stub = f"def answer_{name}(x):\n    raise NotImplementedError"
        asked = f"check.{name}(answer_{name})"
        cells.append(text(name, f"**{name[-1]}. Do it** · 5 minutes"))
        cells.append(new_code_cell(stub, id=f"{name}-stub"))
        cells.append(new_code_cell(asked, id=f"{name}-check", outputs=[prints(VERDICT)]))
    cells += [text("remember", "## 9. What to remember"), text("sources", "## 10. Sources")]
    for count, cell in enumerate((cell for cell in cells if cell.cell_type == "code"), 1):
        cell.execution_count = count
    return new_notebook(cells=cells, metadata=METADATA)


def verdicts(folder, change=None, name="09_toy.ipynb"):
    """The names of the rules that the lesson breaks after a change to its cells, given by id."""
    notebook = lesson()
    if change:
        change(notebook, {cell.id: cell for cell in notebook.cells})
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(nbformat.v4.writes(notebook), encoding="utf-8")
    return set(complaints(path))


def source(name, words):
    return lambda _, cells: cells[name].update(source=words)


def output(name, *outputs):
    return lambda _, cells: cells[name].update(outputs=list(outputs))


def data(**media):
    return new_output(
        "display_data", data={kind.replace("_", "/"): value for kind, value in media.items()}
    )


def tag(name, *tags, **more):
    return lambda _, cells: cells[name].metadata.update(tags=list(tags), **more)


def live(cell):
    made_from = hashlib.sha256(cell.source.encode()).hexdigest()[:16]
    cell.metadata.update(tags=["nbval-ignore-output"], output_made_from=made_from)


def hidden(words):
    """A cell that is folded and computes."""

    def change(_, cells):
        cells["draw"].update(source=words)
        cells["draw"].metadata.update(tags=["hide-input"])

    return change


def add(cell):
    return lambda notebook, _: notebook.cells.append(cell)


ASKED = new_code_cell("my_guess = None", id="predict-01")
READ = text("predict-01-read", "It is 8.25.")


FOLDED = "<details><summary><b>Claims</b></summary>\n\nIt fell by 0.125.\n\n</details>"
SOURCES = FOLDED.replace("It fell by 0.125", "### Sources\n\n- 99 papers")


def answered(source="print(8 + 0.25, my_guess)"):
    return new_code_cell(source, id="predict-01-answer", outputs=[prints("8.25 None\n")])


def behind(*cells):
    """Puts cells in front of the last sections, and counts the code anew."""

    def change(notebook, _):
        notebook.cells[-2:-2] = cells
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for count, cell in enumerate(code, 1):
            cell.execution_count = count

    return change


def evidence(heading="## Evidence", words=FOLDED, sources=SOURCES, collapsed=True, tagged=True):
    """The form of a rewritten lesson: the section Evidence in the place of Sources."""

    def change(notebook, cells):
        drawn = new_code_cell("figures.show(figure, alt=alt)", id="evidence-figure")
        drawn.outputs = [picture(alt="A line of dots that goes up from 1 to 2 over the seeds.")]
        drawn.metadata.update({"tags": ["hide-input"]} if tagged else {})
        first = text("evidence", heading)
        first.metadata.update({"jp-MarkdownHeadingCollapsed": True} if collapsed else {})
        cells["title"].source = cells["title"].source.replace("#10.-Sources", "#toy")
        notebook.cells[-1:] = [first, text("sure", words), drawn, text("sources", sources)]
        drawn.execution_count = sum(cell.cell_type == "code" for cell in notebook.cells)

    return change


UNSTABLE = [
    "<A at 0x7f12ab34>",
    "/home/me/x.py",
    r"C:\x",
    "1.1e-17",
    "[-0.0000, 1]",
    "0 -0 1",
    "Wall time: 1 s",
    "nan",
]
UNSEEDED = [
    "torch.randn(2)",
    "torch.manual_seed(0)",
    "torch.rand_like(x)",
    "x.normal_()",
    "random.random()",
]
UNSEEDED += ["torch.nn.init.xavier_uniform_(w)", "np.random.rand(2)", "np.random.default_rng()"]
COMPUTING = [
    "layers = training.mlp('none')",
    "y = torch.nn.functional.layer_norm(x, (2,))",
    "y = x @ x",
    "assert x",
    "class A:\n    pass",
    "loss.backward()",
]
ASSERTING_NOTHING = ["assert True", "assert x == x", "assert 1 < 2"]
FAULTS = [  # (the rule, the fault)
    ("schema", lambda _, cells: cells["draw"].update(colour="red")),
    ("schema", add(nbformat.v4.new_raw_cell("x", id="raw"))),
    ("ids", add(text("title", "once more"))),
    ("ids", add(text("0a1b2c3d", "x"))),
    ("ids", add(text("a1b2c3d4-0000-4000-8000-000000000000", "x"))),
    ("metadata", lambda notebook, _: notebook.metadata.update(widgets={})),
    ("metadata", lambda notebook, _: notebook.metadata.kernelspec.update(name="mine")),
    ("metadata", lambda _, cells: cells["draw"].metadata.update(execution={})),
    ("known_tags", tag("draw", "slideshow")),
    ("known_tags", source("draw", f"# NBVAL_IGNORE_OUTPUT\n{DRAW}")),
    *(("hidden_input", hidden(source)) for source in COMPUTING),
    ("hidden_input", tag("title", "hide-input")),
    ("live_cells", lambda _, cells: live(cells["draw"])),
    ("execution_counts", lambda _, cells: cells["draw"].update(execution_count=None)),
    (
        "errors_and_warnings",
        output("draw", new_output("error", ename="E", evalue="no", traceback=[])),
    ),
    ("errors_and_warnings", output("draw", new_output("stream", name="stderr", text="careful"))),
    ("errors_and_warnings", tag("draw", "raises-exception")),
    *(("stable_outputs", output("draw", prints(words))) for words in UNSTABLE),
    ("output_sizes", output("draw", prints("x" * 1001))),
    ("output_sizes", output("figure", picture("figure: 1 axes" + "x" * 6000))),
    ("output_sizes", source("title", "x" * 600_000)),
    ("pictures", output("draw", data(image_jpeg="x"))),
    ("pictures", output("figure", picture(alt="too short"))),
    ("pictures", output("draw", picture())),
    ("plain_python", source("draw", "%timeit 1")),
    ("plain_python", source("draw", "from matplotlib import pyplot")),
    ("plain_python", source("draw", " ")),
    ("links", source("title", "[gone](gone.ipynb) 0.125")),
    ("links", source("title", "[gone](#Gone) 0.125")),
    ("links", source("title", "[gone](09_toy.ipynb#gone) 0.125")),
    ("float64_first", source("imports", "import torch")),
    ("last_sections", add(text("after", "## More"))),
    ("last_sections", evidence(sources=SOURCES.replace("\n\n</", "\n\n## More\n\n</"))),
    (
        "metadata",
        lambda _, cells: cells["remember"].metadata.update({"jp-MarkdownHeadingCollapsed": True}),
    ),
    ("evidence_is_folded", evidence(collapsed=False)),
    ("evidence_is_folded", evidence(tagged=False)),
    ("evidence_is_folded", evidence(words=f"It fell.\n\n{FOLDED}")),
    ("evidence_is_folded", evidence(sources=FOLDED)),
    ("numbers_in_prose", evidence(words=FOLDED.replace("0.125", "0.375"))),
    ("exercises_with_checks", source("ex2", "**2. No minutes**")),
    ("exercises_with_checks", lambda _, cells: cells["ex2-stub"].update(id="try-this")),
    ("exercises_with_checks", source("ex1-check", "answer(1)")),
    ("exercises_with_checks", output("ex1-check", prints("[ok] Exercise"))),
    ("exercises_with_checks", tag("ex1-stub", "hide-input")),
    (
        "answers_keep_their_names",
        source("draw", "for answer_ex2 in (1, 2):\n    print(answer_ex2)"),
    ),
    *(("asserts_something", source("draw", line)) for line in ASSERTING_NOTHING),
    *(("seeded", source("draw", line)) for line in UNSEEDED),
    ("predictions_are_answered", behind(ASKED)),
    ("predictions_are_answered", behind(ASKED, answered())),
    ("predictions_are_answered", behind(ASKED, answered(), text("words", "It is large."))),
    ("predictions_are_answered", behind(ASKED, answered(), text(READ.id, "Fine.\n\n### More"))),
    ("answers_are_out_of_sight", behind(ASKED, answered(), READ, text("words", "Is 8.25 much?"))),
    (
        "guesses_are_compared_with_what_was_computed",
        behind(ASKED, answered("print(abs(my_guess - 8.25))"), READ),
    ),
    (
        "guesses_are_compared_with_what_was_computed",
        behind(ASKED, answered("print(my_guess == (8.25, 2))"), READ),
    ),
]
IDS = [f"{number}-{rule}" for number, (rule, _) in enumerate(FAULTS)]


def test_a_sound_lesson_keeps_every_rule(tmp_path):
    assert verdicts(tmp_path) == set()


def test_a_lesson_may_end_with_evidence(tmp_path):
    assert verdicts(tmp_path, evidence()) == set()


@pytest.mark.parametrize(("rule", "fault"), FAULTS, ids=IDS)
def test_one_rule_sees_the_fault(tmp_path, rule, fault):
    assert verdicts(tmp_path, fault) == {rule}


def test_what_stands_behind_a_fold_may_say_other_things(tmp_path):
    shown = "Is 8.25 much? Or 0.125?"
    parts = [
        [ASKED, answered(), READ, text("words", "Is 0.125 much? <details>8.25</details>")],
        [ASKED, answered(), READ, text("words", f"Fine.\n\n### Next\n\n{shown}")],
        [ASKED, answered(), READ, new_code_cell("print(1)", id="next"), text("words", shown)],
        [ASKED, answered("print(my_guess == 8 + 0.25)"), READ],
    ]
    for cells in parts:
        assert verdicts(tmp_path, behind(*cells)) == set()


def test_a_cell_that_loads_draws_and_formats_may_be_folded(tmp_path):
    words = (
        "runs = training.load_record('a.json')\nax.plot(x, "
        "[f'{y:.2f}' for y in runs])\nprint(x.mean())"
    )
    assert "hidden_input" not in verdicts(tmp_path, hidden(words))


def test_solutions_show_that_every_check_accepts(tmp_path):
    assert verdicts(tmp_path, name="solutions/09_toy.ipynb") == {"solved"}


def test_a_solution_without_its_tag_is_seen(tmp_path):
    def untagged(_, cells):
        cells["draw"].update(id="ex1-solution")

    for change in (untagged, tag("draw", "solution")):
        found = verdicts(tmp_path, change, name="solutions/09_toy.ipynb")
        assert found == {"solved", "solutions_are_tagged"}


def test_every_rule_is_seen_to_complain():
    modules = (
        exercise_rules,
        formula_rules,
        prose_rules,
        reading_rules,
        reported_rules,
    )
    homes = {rules.__name__ for rules in modules}
    elsewhere = {name for name, (_, check) in RULES.items() if check.__module__ in homes}
    of_solutions = {"solved", "solutions_are_tagged"}
    assert {rule for rule, _ in FAULTS} | of_solutions >= set(RULES) - elsewhere


@pytest.mark.parametrize(
    ("number", "cells", "broken"),
    [("07", 4, False), ("07a", 4, False), ("07", 5, True), ("06", 1, True)],
)
def test_live_cells_are_for_lesson_07(tmp_path, number, cells, broken):
    def change(_, named):
        for cell in list(named.values())[1 : 1 + cells]:
            live(cell)

    # a toy named as a lesson is held to that lesson's prose rules, too
    found = verdicts(tmp_path, change, f"{number}_toy.ipynb")
    assert ("live_cells" in found) == broken


def test_a_live_cell_whose_source_changed_is_seen(tmp_path):
    change = tag("draw", "nbval-ignore-output", output_made_from="an older source")
    assert "live_cells" in verdicts(tmp_path, change, "07_toy.ipynb")
