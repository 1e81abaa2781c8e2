"""Open JupyterLab on the first lesson in the learner's own copy:
`python tools/lab.py [JupyterLab option …]`.

The copy in my/ is git-ignored, and neither `make test` nor `make notebooks` looks at it.
"""

import json
import os
import sys
from pathlib import Path

import learner

ROOT = Path(__file__).resolve().parents[1]
MY = ROOT / "my"
SETTINGS = ROOT / "tools" / "lab_settings"
WORKSPACES = MY / ".lab" / "workspaces"


def set_environment():
    """What the kernels find: where solved exercises are noted, a hint for restarts;
    the lab's defaults.
    """
    os.environ["NORMLIB_PROGRESS"] = "1"  # long trainings show a bar
    os.environ["NORMLIB_SOLVED"] = str(MY / "progress.json")
    # the lessons' tensors are small: more threads are slower
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PYTHONSTARTUP", str(ROOT / "tools" / "kernel_startup.py"))
    others = os.environ.get("JUPYTER_CONFIG_PATH")
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(
        [str(SETTINGS), *([others] if others else [])]
    )


def set_workspace(lesson):
    """At first the lab shows this lesson and the table of contents;
    afterwards what the reader left open.

    An address with the lesson in it would do without this, but then the lab closes its left side.
    """
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    if WORKSPACES.exists():
        return
    workspace = json.loads((SETTINGS / "workspace.json").read_text(encoding="utf-8"))
    name = f"notebook:my/{lesson.name}"
    dock = {"type": "tab-area", "currentIndex": 0, "widgets": [name]}
    workspace["data"]["layout-restorer:data"]["main"] = {"dock": dock, "current": name}
    workspace["data"][name] = {"data": {"path": f"my/{lesson.name}", "factory": "Notebook"}}
    WorkspacesManager(str(WORKSPACES)).save("default", json.dumps(workspace))


def main(arguments):
    from jupyterlab.labapp import main as jupyterlab

    news = learner.renew(ROOT / "notebooks", MY)
    for line in [learner.announcement(news), *learner.progress(MY, ROOT / "normcourse" / "checks")]:
        if line:
            print(line, flush=True)
    set_environment()
    set_workspace(min(MY.glob("[0-9][0-9]_*.ipynb")))
    own = [
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.workspaces_dir={WORKSPACES}",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # in a container everyone is root, and Jupyter would refuse to start
        own.append("--allow-root")
    return jupyterlab([*own, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
