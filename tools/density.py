"""How dense the code is: `python -m tools.density [--notebooks]`. It reports, and never fails.

Tokens a code line (names, numbers, operators, strings; no comment, no docstring), packed
assignments of calls (`a, b = f(), g()`) for 1,000 code lines, lines of more than 100 columns, and
the median number of code lines of a notebook's visible cells.

The aims: 8 tokens a line in normlib and 9 in notebooks, no packed assignment of calls, no longer
line, a visible cell of 8 lines.
"""

import argparse
import ast
import io
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from normcourse.lesson import Notebook

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ["normlib", "normcourse", "editions", "tools", "tests"]
COLUMNS = 100
COUNTED = {tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING}
# from Python 3.12 on an f-string is many tokens
F_STRING_START = getattr(tokenize, "FSTRING_START", None)
F_STRING_END = getattr(tokenize, "FSTRING_END", None)


@dataclass
class Density:
    tokens: int = 0
    lines: int = 0
    packed: int = 0
    wide: int = 0
    cells: list[int] = field(default_factory=list)  # code lines of each visible cell

    def add(self, source: str) -> int:
        """Count a source; returns its code lines."""
        counted = code_tokens(source)
        lines = len({line for token in counted for line in range(token.start[0], token.end[0] + 1)})
        self.tokens += len(counted)
        self.lines += lines
        self.packed += packed_assignments(source)
        self.wide += sum(len(line) > COLUMNS for line in source.splitlines())
        return lines

    def row(self, name: str) -> str:
        lines = max(self.lines, 1)
        numbers = f"{self.tokens / lines:6.1f} {1000 * self.packed / lines:6.1f} {self.wide:6}"
        return f"{name:28} {self.lines:6} {numbers} {median(self.cells) if self.cells else '':>6}"


def code_tokens(source: str) -> list[tokenize.TokenInfo]:
    """Tokens that carry meaning; a docstring is none, an f-string is one on every Python."""
    documents = docstring_lines(source)
    found = []
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == F_STRING_END:
            depth -= 1
        elif token.type == F_STRING_START:
            if depth == 0:
                found.append(token)
            depth += 1
        elif token.type in COUNTED and depth == 0 and token.start[0] not in documents:
            found.append(token)
    return found


def docstring_lines(source: str) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def packed_assignments(source: str) -> int:
    """Assignments of several calls at once."""
    return sum(
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(part, ast.Call) for part in ast.walk(node.value))
        for node in ast.walk(ast.parse(source))
    )


def of_folder(folder: Path) -> Density:
    density = Density()
    for path in sorted(folder.rglob("*.py")):
        density.add(path.read_text("utf-8"))
    return density


def of_notebooks(paths) -> Density:
    density = Density()
    for path in paths:
        for cell in Notebook(path).code:
            lines = density.add(cell.source)
            if "hide-input" not in cell.tags:
                density.cells.append(lines)
    return density


def main() -> None:
    parser = argparse.ArgumentParser(description="How dense the code is.")
    parser.add_argument("--notebooks", action="store_true", help="a line for each notebook, too")
    one_by_one = parser.parse_args().notebooks
    lessons = sorted((ROOT / "notebooks").rglob("*.ipynb"))
    lessons = [path for path in lessons if ".ipynb_checkpoints" not in path.parts]
    print(f"{'':28} {'lines':>6} {'tokens':>6} {'packed':>6} {'> 100':>6} {'cell':>6}")
    for name in FOLDERS:
        print(of_folder(ROOT / name).row(name))
    print(of_notebooks(lessons).row("notebooks"))
    for path in lessons if one_by_one else []:
        print(of_notebooks([path]).row(f"  {path.relative_to(ROOT / 'notebooks')}"))


if __name__ == "__main__":
    main()
