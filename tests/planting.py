"""Faults planted in what tests read from files; no file is changed."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.named_things import ROOT, files


def plant(monkeypatch, paths: Iterable[Path], fault: Callable[[str], str]) -> None:
    """Whoever reads one of these files finds the fault in it."""
    planted = frozenset(paths)
    read = Path.read_text

    def read_text(path: Path, *arguments, **options) -> str:
        text = read(path, *arguments, **options)
        return fault(text) if path in planted else text

    monkeypatch.setattr(Path, "read_text", read_text)


def python_files(*houses: str) -> list[Path]:
    """What a guard of these houses has to look at, found by another way than the guards'."""
    found = (file for file in files() if file.endswith(".py") and file.split("/")[0] in houses)
    return sorted(ROOT / file for file in found)


def one_of_each_folder(paths: Iterable[Path]) -> list[Path]:
    """Of each folder the file whose name most other folders have as well."""
    everywhere = sorted(paths)
    times = Counter(path.name for path in everywhere)
    by_folder = {path.parent: path for path in sorted(everywhere, key=lambda p: times[p.name])}
    return list(by_folder.values())


def in_the_first_cell(words: str) -> Callable[[str], str]:
    """A fault for notebooks: these words at the end of the title's cell."""

    def fault(text: str) -> str:
        notebook = json.loads(text)
        title = notebook["cells"][0]
        title["source"] = f"{''.join(title['source'])}\n\n{words}\n"
        return json.dumps(notebook)

    return fault
