"""The lessons that Colab opens: the branch, the cell that installs, the address of the button."""

import re

import pytest

from editions import colab
from normcourse.lesson import Notebook
from tools import colab as tool
from tools import release

REPOSITORY = "somebody/normlib"


def citation(folder, line):
    path = folder / "CITATION.cff"
    path.write_text(f'title: "x"\n{line}\nlicense: MIT\n', "utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('repository-code: "https://github.com/somebody/normlib"', REPOSITORY),
        ("repository-code: https://github.com/somebody/normlib.git  # since May", REPOSITORY),
        ('repository-code: "https://git.example/somebody/normlib"', ""),
        ('# repository-code: "https://github.com/somebody/normlib"', ""),
        ('repository-code: ""', ""),
    ],
)
def test_the_repository_is_the_one_of_the_citation_if_it_is_on_github(tmp_path, line, found):
    assert colab.repository(citation(tmp_path, line)) == found


@pytest.mark.parametrize("wrong", ["somebody/normlib", "github.com/a/b", "https://github.com/a"])
def test_what_is_no_address_is_named(tmp_path, wrong):
    said = (
        f"repository-code is {wrong!r}; expected an address such as https://github.com/OWNER/NAME"
    )
    with pytest.raises(ValueError, match=re.escape(said)):
        colab.repository(citation(tmp_path, f'repository-code: "{wrong}"'))


def test_without_an_address_one_line_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(colab, "repository", lambda: "")
    with pytest.raises(SystemExit, match="names no repository on GitHub: fill its line"):
        tool.main([str(tmp_path / "new")])


@pytest.fixture(scope="module")
def branch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("branch")
    tool.write(folder, REPOSITORY)
    return folder


@pytest.fixture(scope="module")
def lessons(branch):
    paths = sorted(branch.glob("notebooks/*.ipynb"))
    return {path.stem: Notebook(path).cells for path in paths}


def test_the_branch_has_every_lesson_without_outputs_and_solutions(branch, lessons):
    assert list(lessons) == sorted(
        path.stem for path in (release.ROOT / "notebooks").glob("*.ipynb")
    )
    assert not (branch / "notebooks" / "solutions").exists()
    for name, cells in lessons.items():
        wanted = [cell.id for cell in Notebook(release.ROOT / "notebooks" / f"{name}.ipynb").cells]
        assert [cell.id for cell in cells] == ["install", *wanted]
        for cell in cells:
            assert not cell.outputs
            assert "One way to write it" not in cell.source
            assert "](solutions/" not in cell.source


def test_the_first_cell_installs_the_course_and_no_torch(lessons):
    for cells in lessons.values():
        lines = cells[0].source.splitlines()
        clone, install, signals, folder = (line for line in lines if not line.startswith("#"))
        assert (
            f"git clone --quiet --depth 1 --branch colab https://github.com/{REPOSITORY} " in clone
        )
        packages = install.removeprefix("%pip install --quiet ~/normlib ").split()
        assert {"matplotlib", "mnist1d", "scikit-learn", "sympy"} < set(packages)
        assert not {"torch", "jupyterlab", "ipykernel"} & set(packages)
        assert signals == '!python -c "from normcourse import training; training.signals()"'
        assert folder == "%cd ~/normlib/notebooks"


def test_every_link_has_a_whole_address(lessons):
    links = [
        link
        for cells in lessons.values()
        for cell in cells
        if cell.cell_type == "markdown"
        for link in re.findall(r"\]\((\w[^)\s]*)\)", cell.source)
    ]
    assert len(links) > 200
    assert [link for link in links if not link.startswith(("https:", "http:"))] == []
    to_lesson = colab.lesson(REPOSITORY, "02_layer_norm")
    to_file = f"https://github.com/{REPOSITORY}/blob/HEAD/"
    assert to_lesson in links
    files = [link.removeprefix(to_file) for link in links if link.startswith(to_file)]
    assert len(files) > 100
    assert [path for path in files if not (release.ROOT / path.partition("#")[0]).is_file()] == []
