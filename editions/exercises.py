"""A sheet of a lesson's exercises for print: the tasks and their stubs, no hints, no solutions."""

import itertools
import re

from editions.notebook import Notebook

TASK = re.compile(r"^\*\*\d+\. .+?\*\* · difficulty", re.M)
HINT = re.compile(r"<details>.*?</details>", re.S)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def sheet(lesson: Notebook) -> str:
    """The sheet as Markdown."""
    parts = [f"# Exercises of lesson {lesson.title}", "Without hints and solutions, for print."]
    names = list(lesson.cells)
    for name, following in itertools.pairwise(names):
        found = TASK.search(lesson.markdown.get(name, ""))
        if not found:
            continue
        task = HINT.sub("", lesson.markdown[name][found.start() :])
        parts.append(LINK.sub(r"\1", task).strip())
        if following not in lesson.markdown:
            parts.append(f"```python\n{lesson.source(following)}\n```")
    return "\n\n".join(parts) + "\n"
