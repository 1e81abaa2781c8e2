"""The way in: environment, learner's copy, conda door.

None needs a network: a fake pip stands in.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools import environment as tool

ROOT = Path(__file__).resolve().parents[1]
SHELL = Path("/bin/sh")
needs_shell = pytest.mark.skipif(
    not (SHELL.exists() and shutil.which("make")), reason="plays with the path of a POSIX shell"
)
# `python -m pip` finds this one first, in the folder that the tool runs it from.
FAKE_PIP = """
import pathlib, sys
with open("pip.log", "a") as log:
    print(*sys.argv[1:], file=log)
sys.exit(pathlib.Path("pip-fails").exists())
"""


def pins():
    lines = map(Requirement, (ROOT / "constraints.txt").read_text().splitlines())
    here = [line for line in lines if line.marker is None or line.marker.evaluate()]
    return {canonicalize_name(line.name): line.specifier for line in here}


def installed(root):
    """{name: version} of each distribution that `root` needs on this machine.

    The metadata of what is installed says so.
    """
    todo, seen, found = [Requirement(root)], set(), {}
    while todo:
        requirement = todo.pop()
        distribution = metadata.distribution(requirement.name)
        name = canonicalize_name(requirement.name)
        found[name] = Version(distribution.version)
        for extra in {"", *requirement.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            needs = map(Requirement, distribution.requires or [])
            todo += [
                need
                for need in needs
                if need.marker is None or need.marker.evaluate({"extra": extra})
            ]
    return found


@pytest.fixture
def clone(tmp_path):
    """What the set-up needs, in a folder with a space in its name.

    Its pip is a fake that keeps a log.
    """
    folder = tmp_path / "my course"
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / "pip.py").write_text(FAKE_PIP)
    return folder


def set_up(clone, **variables):
    """Run `make environment` in `clone`.

    It sees nothing of this process's environment but PATH, and the variables that are given.
    """
    variables = {"PATH": os.environ["PATH"], **variables}
    make = [shutil.which("make"), "-s", "environment"]
    return subprocess.run(make, cwd=clone, env=variables, capture_output=True, text=True)


def sentence(run):
    """The one line that is left of a failed run's complaints, without make's own."""
    lines = [line for line in run.stderr.splitlines() if not line.startswith("make")]
    assert run.returncode != 0
    assert len(lines) == 1, run.stderr
    return lines[0]


def program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_every_distribution_is_pinned_at_the_version_that_is_installed():
    found = installed("normlib[lab,test,web]")
    del found["normlib"]
    pinned = pins()
    assert len(found) > 50  # the walk went down to the dependencies of dependencies
    wrong = {
        name: str(version)
        for name, version in found.items()
        if version.public not in pinned.get(name, "")
    }
    assert wrong == {}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
*CONDA, PIP = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]


def test_conda_door_asks_for_the_same_python_and_packages():
    python = CONDA[0].removeprefix("python=")
    assert [f"python={python}", "pip"] == CONDA
    assert python in SpecifierSet(PROJECT["requires-python"])
    assert PIP == {"pip": ["-c constraints.txt", "-e .[lab,test,web]"]}


def test_an_installed_normlib_tells_type_checkers_that_it_is_typed():  # PEP 561
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = settings["package-data"]["normlib"]
    packed = [path.name for pattern in patterns for path in (ROOT / "normlib").glob(pattern)]
    assert packed == ["py.typed"]


@pytest.mark.slow
def test_conda_door_leads_to_the_same_environment(tmp_path):
    # Conda writes the pip part to a file beside environment.yml and gives it to pip there.
    for name in ("pyproject.toml", "constraints.txt", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "normlib", tmp_path / "normlib")
    (tmp_path / "requirements.txt").write_text("\n".join(PIP["pip"]))
    pip_install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--no-index",
        "--no-build-isolation",
    ]
    run = subprocess.run(
        [*pip_install, "-r", "requirements.txt"], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    # Without an index everything but the package itself must be here already, at the pinned
    # version.
    assert [line for line in run.stdout.splitlines() if line.startswith("Would install")] == [
        f"Would install {PROJECT['name']}-{PROJECT['version']}"
    ]


@needs_shell
def test_no_python_stops_with_one_sentence(clone):
    assert "install one from python.org" in sentence(set_up(clone, PATH=""))


@needs_shell
def test_old_or_broken_python_stops_with_one_sentence(clone):
    pretend = "import sys; sys.version_info = (3, 9, 18); exec(sys.argv[1])"
    program(clone / "bin/python3", f'#!{SHELL}\nexec "{sys.executable}" -c "{pretend}" "$2"\n')
    # as a pyenv shim without a Python behind it
    program(clone / "bin/python3.12", f"#!{SHELL}\nexit 127\n")
    assert "No Python 3.11 or newer" in sentence(set_up(clone, PATH=str(clone / "bin")))
    assert "No Python 3.11 or newer" in sentence(set_up(clone, PYTHON=str(clone / "bin/python3")))
    assert not (clone / ".venv").exists()


@needs_shell
def test_python_without_venv_stops_with_one_sentence(clone):
    (clone / "sitecustomize.py").write_text("import sys; sys.modules['ensurepip'] = None")
    run = set_up(clone, PYTHON=sys.executable, PYTHONPATH=str(clone))
    assert "apt install python3" in sentence(run)


@pytest.fixture
def environment(clone):
    """A complete .venv, but made for other constraints; without pip, which would take seconds."""
    folder = clone / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (folder / "installed.sha256").write_text("other constraints")
    (folder / "belongings").touch()
    return folder


@needs_shell
def test_failed_installation_stops_with_one_sentence(clone, environment):
    (clone / "pip-fails").touch()
    assert "run the same command again" in sentence(set_up(clone, PYTHON=sys.executable))


def test_what_a_failed_installation_left_is_made_anew(monkeypatch, tmp_path):
    """What the test below sees as well, with a real .venv."""
    made = []

    def pip(*arguments):
        made.append(arguments[-1])
        if fails:
            sys.exit("no network")

    stamp = tmp_path / "installed.sha256"
    stamp.write_text("other constraints")
    monkeypatch.setattr(tool, "STAMP", stamp)
    monkeypatch.setattr(tool, "runs", lambda: True)
    monkeypatch.setattr(tool, "make_venv", lambda: made.append(".venv"))
    monkeypatch.setattr(tool, "pip", pip)
    fails = True
    with pytest.raises(SystemExit):
        tool.install()
    assert made == ["setuptools"] and not stamp.exists()
    fails = False
    tool.install()
    assert made[1:] == [".venv", "setuptools", ".[lab,test,web]"] and stamp.exists()


@pytest.mark.slow
@needs_shell
def test_the_run_after_a_failed_installation_starts_anew(clone, environment):
    (clone / "pip-fails").touch()
    set_up(clone, PYTHON=sys.executable)
    (clone / "pip-fails").unlink()
    assert set_up(clone, PYTHON=sys.executable).returncode == 0
    assert not (environment / "belongings").exists()


@needs_shell
def test_new_constraints_are_installed_in_place_and_nothing_is_installed_twice(clone, environment):
    (clone / "normcourse").mkdir()
    note = "def signals():\n    print(file=open('signals.log', 'a'))\n"
    (clone / "normcourse" / "training.py").write_text(note)
    assert set_up(clone, PYTHON=sys.executable, TORCH_ARGS="--index-url 'a b'").returncode == 0
    assert (environment / "belongings").exists()
    log = (clone / "pip.log").read_text()
    assert [line.split("constraints.txt ")[1] for line in log.splitlines()] == [
        "setuptools",
        "--no-deps --index-url a b torch",
        "--no-build-isolation -e .[lab,test,web]",
    ]

    # Also with no Python on the path, and with another environment active.
    assert set_up(clone, PATH="", VIRTUAL_ENV="/elsewhere").returncode == 0
    assert (clone / "pip.log").read_text() == log
    assert (clone / "signals.log").read_text() == "\n"  # made once, before a lesson needs them


@needs_shell
def test_another_torch_is_installed_without_the_pins_of_the_usual_one(clone, environment):
    assert set_up(clone, PYTHON=sys.executable, TORCH="2.11.0").returncode == 0
    log = (clone / "pip.log").read_text().splitlines()
    constraints = environment / "constraints.txt"
    assert all(f"-c {constraints} " in line for line in log)
    pinned = constraints.read_text().splitlines()
    usual = (clone / "constraints.txt").read_text().splitlines()
    assert [line for line in pinned if line not in usual] == ["torch==2.11.0"]
    left_out = {re.split("[=-]", line)[0] for line in usual if line not in pinned}
    assert left_out == {"torch", "triton", "nvidia", "cuda"}

    # The usual one comes back as soon as nobody asks for another.
    assert set_up(clone, PYTHON=sys.executable).returncode == 0
    assert (
        (clone / "pip.log")
        .read_text()
        .splitlines()[-1]
        .split("-c ")[1]
        .startswith("constraints.txt ")
    )


def test_constraints_leave_room_for_the_lowest_torch():
    """Torch 2.11 and 2.12 refuse setuptools 82, and nothing else that is pinned."""
    assert "81.0.0" in pins()["setuptools"]


def test_learners_copy_is_ignored_by_git(tmp_path):
    shutil.copy(ROOT / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    paths = ["my/01_a.ipynb", "my/records/x.json", "notebooks/01_a.ipynb"]
    command = ["git", "-C", tmp_path, "check-ignore", *paths]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stdout.split() == paths[:2]
