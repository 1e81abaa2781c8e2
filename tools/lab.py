"""Open JupyterLab on the first lesson in the learner's own copy.

`python -m tools.lab [JupyterLab option …]`

The copy in my/ is git-ignored, and neither `make test` nor `make notebooks` looks at it. With
SOLUTIONS=no in the environment it has no solutions.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from tools import learner

ROOT = Path(__file__).resolve().parents[1]

COURSE = ROOT / "notebooks"
MY = ROOT / "my"
SETTINGS = ROOT / "tools" / "lab_settings"
WORKSPACES = MY / ".lab" / "workspaces"


def set_environment():
    """Set what the kernels and the lab find in the environment.

    For the kernels: where solved exercises are noted, and a hint for restarts. For the lab: its
    defaults.
    """
    os.environ["NORMLIB_PROGRESS"] = "1"  # long trainings show a bar
    os.environ["NORMLIB_SOLVED"] = str(MY / "progress.json")
    # the lessons' tensors are small: more threads are slower
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PYTHONSTARTUP", str(ROOT / "tools" / "lab_hints.py"))
    others = os.environ.get("JUPYTER_CONFIG_PATH")
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(
        [str(SETTINGS), *([others] if others else [])]
    )


def set_workspace(lesson: Path) -> None:
    """Let the lab show this lesson, the progress and the contents when it opens for the first time.

    Afterwards it shows what the reader left open. An address with the lesson in it would do without
    this, but then the lab closes its left side.
    """
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    if WORKSPACES.exists():
        return
    workspace = json.loads((SETTINGS / "workspace.json").read_text(encoding="utf-8"))
    name = f"notebook:my/{lesson.name}"
    page = f"my/{learner.PROGRESS}"
    preview = f"markdownviewer-widget:{page}"
    dock = {"type": "tab-area", "currentIndex": 0, "widgets": [name, preview]}
    workspace["data"]["layout-restorer:data"]["main"] = {"dock": dock, "current": name}
    workspace["data"][name] = {"data": {"path": f"my/{lesson.name}", "factory": "Notebook"}}
    workspace["data"][preview] = {"data": {"path": page, "factory": "Markdown Preview"}}
    WorkspacesManager(str(WORKSPACES)).save("default", json.dumps(workspace))


def with_solutions() -> bool:
    asked = os.environ.get("SOLUTIONS") or "yes"
    if asked not in ("yes", "no"):
        sys.exit(f"SOLUTIONS is yes or no, not {asked!r}: make lab SOLUTIONS=no")
    return asked == "yes"


def look_after_copy() -> tuple[list[str], list[str]]:
    """Make or renew the reader's copy; what was solved so far, and what the reader should know."""
    news = learner.set_aside_damaged(MY)
    news += learner.announcement(learner.renew(COURSE, MY, with_solutions()), COURSE, MY)
    with suppress(OSError):  # a full disk is among the news already
        learner.write_progress_page(MY, COURSE)
    return learner.progress(MY, COURSE), news


def main(arguments):
    from jupyterlab.labapp import main as jupyterlab

    solved, news = look_after_copy()
    for line in [*solved, *news]:  # the news last: Jupyter's log follows
        print(line, flush=True)
    lessons = sorted(path for path in MY.glob("[0-9][0-9]_*.ipynb") if path.is_file())
    if not lessons:
        print("There is no lesson to open.", file=sys.stderr)
        return 1
    set_environment()
    with suppress(OSError):  # a full disk, or one that is only read: the lab opens without a lesson
        set_workspace(lessons[0])
    own = [
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.workspaces_dir={WORKSPACES}",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # in a container everyone is root, and Jupyter would refuse to start
        own.append("--allow-root")
    try:
        return jupyterlab([*own, *arguments])
    finally:
        for line in news:  # once more, below Jupyter's log
            print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
