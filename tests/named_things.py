"""Files, targets of make and options that documents, docstrings and comments name."""

import ast
import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

from normcourse.lesson import Notebook
from tests.notebooks.notebook_rules import anchors

ROOT = Path(__file__).parents[1]
SKIPPED = {".git", ".venv", "build", "my", "node_modules"}  # and what ends in cache or egg-info
HOUSES = {"normlib": ["normlib"], "normcourse": ["normcourse", "normlib"]}
ENDINGS = "py|md|ipynb|yaml|yml|json|toml|txt|cff|css|js|html|svg|png"
PATH = re.compile(rf"(?<![\w/.<*-])(?:\.?[\w*-][\w.*-]*/)*[\w.*-]+\.(?:{ENDINGS})\b(?![\w/(])")
FOLDER = re.compile(r"(?<![\w/.<*:-])(?:\.?[A-Za-z][\w-]*/)+(?![\w.*<-])")
ELSEWHERE = ("my/", "build/", ".venv/", "path/")  # made here, or the reader's
NOT_HERE = {
    "reveal.js": "a package",
    "notebooks/records/timing_gpu.json": "nobody has made one yet",
}
PLACEHOLDER = re.compile(r"NN|NAME|CELL|(?<![a-z])name\.|\.old\.")
SPAN = re.compile(r"```[a-z]*\n(.*?)```|`([^`\n]+)`", re.S)
MAKE = re.compile(r"(?:^|[&;|(])\s*make((?: +[A-Za-z_-]+(?:=(?:\"[^\"]*\"|\S+))?)+)", re.M)
DOTTED = re.compile(r"(?<![\w/.])(?:normlib|normcourse|tests|tools|editions)(?:\.[A-Za-z_]\w*)+")
COMMENT = re.compile(r"(?:^|\s)# .*")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
ARGUMENT = re.compile(r"=(?:\"[^\"]*\"|\S+)")
TOOL = re.compile(r"-m tools\.(\w+)((?: +[\w./*=-]+)*)")


class Named(NamedTuple):
    where: str  # file and line
    text: str  # what speaks of files
    code: list[str]  # its parts that speak of commands
    home: Path  # the folder of the file that says it


# What there is


@cache
def files() -> frozenset[str]:
    return frozenset(shown(path) for path in walk(ROOT))


@cache
def folders() -> frozenset[str]:
    return frozenset(part for file in files() for part in file.split("/")[:-1])


def walk(folder: Path):
    for path in folder.iterdir():
        if path.name in SKIPPED or path.name.endswith(("cache", "cache__", ".egg-info")):
            continue
        if path.is_dir():
            yield from walk(path)
        else:
            yield path


@cache
def targets() -> frozenset[str]:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    return frozenset(re.findall(r"^([a-z][a-z-]*):", makefile, re.M))


@cache
def variables() -> frozenset[str]:
    return frozenset(re.findall(r"\b([A-Z_]{2,})\b", (ROOT / "Makefile").read_text("utf-8")))


# What is said


def documents() -> list[Path]:
    """Who works on the course reads these; the lessons have rules of their own."""
    own = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "lectures/README.md")]
    pages = sorted((ROOT / "notebooks/reference").glob("*.md"))
    hosting = sorted((ROOT / "editions/pages").glob("*.md"))
    return [*own, *hosting, *(path for path in pages if not path.name.startswith("derivation"))]


def of_document(path: Path):
    """Its code, in blocks and within lines."""
    text = path.read_text("utf-8")
    for match in SPAN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        code = match[1] or match[2]
        yield Named(f"{shown(path)}:{line}", code, [code], path.parent)


def of_notebook(path: Path):
    """The code within its text: commands alone, for a lesson cites other projects' files."""
    for cell in Notebook(path).markdown:
        yield Named(f"{shown(path)}, {cell.id}", "", spans(cell.source), path.parent)


def of_python(path: Path):
    """Its docstrings and comments; of other strings the commands."""
    source = path.read_text("utf-8")
    name = shown(path)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            text = ast.get_docstring(node) or ""
            yield Named(f"{name}:{getattr(node, 'lineno', 1)}", text, spans(text), path.parent)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Named(f"{name}:{node.lineno}", "", spans(node.value), path.parent)
    for number, line in enumerate(source.splitlines(), 1):
        if comment := COMMENT.search(line):
            yield Named(f"{name}:{number}", comment[0], spans(comment[0]), path.parent)


def spans(text: str) -> list[str]:
    return [block or span for block, span in SPAN.findall(text)]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# What is wrong with it


def missing_files(named: Named):
    """Paths that lead nowhere; a bare name is a file of the same house."""
    house = shown(named.home).partition("/")[0]
    for path in PATH.findall(named.text):
        known = path.startswith(ELSEWHERE) or PLACEHOLDER.search(path) or path in NOT_HERE
        if not known and not is_there(path, house):
            yield f"{named.where}: {path} is not there: name the file that has its content now"


@cache
def is_there(path: str, house: str) -> bool:
    rooms = tuple(HOUSES.get(house, [""]))  # others may name every house
    if "/" in path:
        there = files()
    else:
        there = [file for file in files() if "/" not in file or file.startswith(rooms)]
    return any(fnmatch(file, path) or fnmatch(file, f"*/{path}") for file in there)


def missing_folders(named: Named):
    for path in FOLDER.findall(named.text):
        known = path.startswith(ELSEWHERE) or (ROOT / path).is_dir()
        if not known and ("/" in path.strip("/") or path.strip("/") not in folders()):
            yield f"{named.where}: there is no folder {path}"


def missing_names(named: Named):
    """Modules, functions and classes that are not where a dotted name says."""
    for dotted in DOTTED.findall("\n".join([named.text, *named.code])):
        parts = dotted.split(".")
        for length in range(len(parts), 0, -1):
            if module := module_of("/".join(parts[:length])):
                break
        else:
            yield f"{named.where}: there is no module {dotted}"
            continue
        name = parts[length] if length < len(parts) else ""
        if name and not re.search(rf"\b{name}\b", module.read_text("utf-8")):
            yield f"{named.where}: {shown(module)} has no {name}, of which {dotted} speaks"


def module_of(path: str) -> Path | None:
    found = (ROOT / f"{path}.py", ROOT / path / "__init__.py")
    return next((file for file in found if file.is_file()), None)


def unknown_commands(named: Named):
    """Targets and variables that the Makefile does not have, options that a tool does not know."""
    for code in named.code:
        for words in MAKE.findall(code):
            for name, is_variable in re.findall(r"([A-Za-z_-]+)(=?)", ARGUMENT.sub("=", words)):
                if name not in (variables() if is_variable else targets()):
                    there = ", ".join(sorted(targets()))
                    yield f"{named.where}: make has no {name}: it has {there}"
        for tool, arguments in TOOL.findall(code):
            module = module_of(f"tools/{tool}")
            source = module.read_text("utf-8") if module else ""
            for option in re.findall(r"(?<= )--?[a-z][a-z-]*", arguments):
                if f'"{option}"' not in source:
                    yield f"{named.where}: tools/{tool}.py has no option {option}"


def wrong_links(path: Path, text: str):
    """Links of a document to no file or no heading, or elsewhere than their words say."""
    for words, target in LINK.findall(SPAN.sub(" ", text)):
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        where = f"{shown(path)}: [{words}]({target})"
        if not file.exists():
            yield f"{where} leads to no file"
        elif anchor and anchor not in anchors(file):
            yield f"{where}: {file.name} has no heading or anchor {anchor!r}"
        lesson = re.match(r"(?:.*/)?(\d\d[a-z]?)_\w+\.(?:ipynb|md)$", name)
        said = re.findall(r"(?<![\w.])\d\d[a-z]?\b", words) if lesson else []
        if re.fullmatch(r"A\d+", words):
            lesson, said = (re.match(r"(.*)", anchor), [words])
        if any(number != lesson[1] for number in said):
            yield f"{where} says {' '.join(said)} and leads to {lesson[1]}"


def faults(named: Named):
    yield from missing_files(named)
    yield from missing_names(named)
    yield from unknown_commands(named)
