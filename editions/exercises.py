"""A sheet of a lesson's exercises for print: the tasks and their stubs, no hints, no solutions."""

import re

from editions.notebook import Notebook, text_of

TASK = re.compile(r"^\*\*\d+\. .+?\*\* · difficulty", re.M)
HINT = re.compile(r"<details>.*?</details>", re.S)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def sheet(lesson: Notebook) -> str:
    """The sheet as Markdown."""
    parts = [f"# Exercises of lesson {lesson.title}", "Without hints and solutions, for print."]
    names = list(lesson.cells)
    for place, name in enumerate(names):
        found = name in lesson.markdown and TASK.search(lesson.markdown[name])
        if not found:
            continue
        task = HINT.sub("", lesson.markdown[name][found.start() :])
        parts.append(LINK.sub(r"\1", task).strip())
        following = [lesson.cells[other] for other in names[place + 1 : place + 2]]
        parts += [
            f"```python\n{text_of(cell['source'])}\n```" for cell in following if is_code(cell)
        ]
    return "\n\n".join(parts) + "\n"


def is_code(cell: dict) -> bool:
    return cell["cell_type"] == "code"
