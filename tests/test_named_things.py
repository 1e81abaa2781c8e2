"""Every path, target of make and option that README, CONTRIBUTING, docstrings name is there."""

from pathlib import Path

import pytest

from tests.named_things import (
    ROOT,
    Named,
    documents,
    faults,
    is_there,
    missing_folders,
    of_document,
    of_notebook,
    of_python,
    shown,
    spans,
    wrong_links,
)
from tests.planting import in_the_first_cell, one_of_each_folder, plant, python_files

HOUSES = ("normlib", "normcourse", "editions", "tools", "tests")
PYTHON = sorted(
    path
    for house in HOUSES
    for path in (ROOT / house).rglob("*.py")
    if path != Path(__file__)  # which plants
)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("**/[0-9]*.ipynb"))


@pytest.mark.parametrize("path", documents(), ids=shown)
def test_a_document_names_what_is_there(path):
    found = [
        fault for named in of_document(path) for fault in (*faults(named), *missing_folders(named))
    ]
    assert not found, "\n".join(["", *found])


LINKING = [
    path for path in documents() if path.parent.name != "pages"
]  # a template's lead to build/
LINKING += [path for path in sorted((ROOT / "lectures").glob("*.md")) if path not in LINKING]


@pytest.mark.parametrize("path", LINKING, ids=shown)
def test_every_link_of_a_document_leads_where_it_says(path):
    assert list(wrong_links(path, path.read_text("utf-8"))) == []


def test_the_lessons_name_what_is_there():
    found = [fault for path in NOTEBOOKS for named in of_notebook(path) for fault in faults(named)]
    assert not found, "\n".join(["", *found])


def test_docstrings_and_comments_name_what_is_there():
    found = [fault for path in PYTHON for named in of_python(path) for fault in faults(named)]
    assert not found, "\n".join(["", *found])


NOWHERE = "nowhere/at_all.py"


def test_a_missing_file_is_seen_in_every_folder_of_code(monkeypatch):
    planted = one_of_each_folder(python_files(*HOUSES))
    plant(monkeypatch, planted, lambda text: f"{text}\n# see {NOWHERE}\n")
    looked_at = [path for path in PYTHON if path in planted]
    found = [fault for path in looked_at for named in of_python(path) for fault in faults(named)]
    assert [fault.partition(":")[0] for fault in found] == [shown(path) for path in looked_at]
    assert looked_at == sorted(planted)


@pytest.mark.parametrize("path", documents(), ids=shown)
def test_a_missing_file_is_seen_in_every_document(monkeypatch, path):
    plant(monkeypatch, [path], lambda text: f"{text}\nSee `{NOWHERE}`.\n")
    (found,) = (fault for named in of_document(path) for fault in faults(named))
    assert f"{NOWHERE} is not there" in found


@pytest.mark.parametrize("path", LINKING, ids=shown)
def test_a_link_to_nowhere_is_seen_in_every_document(monkeypatch, path):
    plant(monkeypatch, [path], lambda text: f"{text}\nSee [it]({NOWHERE}).\n")
    (found,) = wrong_links(path, path.read_text("utf-8"))
    assert f"[it]({NOWHERE}) leads to no file" in found


@pytest.mark.parametrize("path", one_of_each_folder(NOTEBOOKS), ids=shown)
def test_a_wrong_command_is_seen_in_lessons_and_solutions(monkeypatch, path):
    plant(monkeypatch, [path], in_the_first_cell("Run `make lap`."))
    (found,) = (fault for named in of_notebook(path) for fault in faults(named))
    assert "make has no lap" in found


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("`make lap`", "make has no lap"),
        ("```\nmake lab     # opens it\nmake tests\n```", "make has no tests"),
        ("`make lab LAB_ARG=--port=1`", "make has no LAB_ARG"),
        ("`make bench RECORD=my/a.json && make web`", ""),
        ("`python -m tools.notebooks --life notebooks/07*.ipynb`", "no option --life"),
        ("`python -m tools.notebook notebooks`", "has no notebook, of which tools.notebook speaks"),
        ("`tools/browsers.py` drives it", "tools/browsers.py is not there"),
        ("see DESIGN.md", "DESIGN.md is not there"),
        ("see notebooks/NN_name.ipynb and my/progress.json", ""),
        ("of normlib.functional.norms.rms_nrom", "norms.py has no rms_nrom"),
        ("of normlib.functionals.rms_norm", "has no functionals"),
        ("of normlib.functional.rms_norm", ""),
    ],
)
def test_what_is_not_there_is_named(planted, said):
    found = list(faults(Named("here:1", planted, spans(planted), ROOT)))
    assert all(line.startswith("here:1: ") for line in found)
    assert said in found[0] if said else not found


@pytest.mark.parametrize(
    ("name", "house", "there"),
    [
        ("norms.py", "normlib", True),
        ("traffic.py", "normlib", False),
        ("traffic.py", "tests", True),
        ("functional/norms.py", "normcourse", True),
        ("README.md", "normlib", True),
    ],
)
def test_a_bare_name_is_a_file_of_the_same_house(name, house, there):
    assert is_there(name, house) == there


def test_a_folder_that_is_not_there_is_named():
    assert list(
        missing_folders(Named("here:1", "in normcourse/check/ and lectures/", [], ROOT))
    ) == ["here:1: there is no folder normcourse/check/"]


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("[a page](CONTRIBUTED.md)", "leads to no file"),
        ("[a section](CONTRIBUTING.md#add-a-nrom)", "has no heading or anchor 'add-a-nrom'"),
        ("[here](#nowhere)", "has no heading or anchor"),
        ("[lesson 00a](notebooks/00b_products_and_steps.ipynb)", "says 00a and leads to 00b"),
        ("[A37](notebooks/reference/claims.md#A38)", "says A37 and leads to A38"),
        ("[A37](notebooks/reference/claims.md#A37), [a norm](CONTRIBUTING.md#add-a-norm)", ""),
    ],
)
def test_a_wrong_link_is_seen(link, said):
    found = list(wrong_links(ROOT / "README.md", f"See {link}."))
    assert said in found[0] if said else not found
