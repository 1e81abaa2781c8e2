"""Open JupyterLab on the first lesson in the learner's own copy: `python tools/lab.py [JupyterLab option …]`.

The copy in my/ is git-ignored, and neither `make test` nor `make notebooks` looks at it.
"""

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy_new(source, target):
    """Copy the tree `source` into `target`, leaving every file that is already there as it is."""

    def copy(old, new):
        if not os.path.exists(new):
            shutil.copy(old, new)

    shutil.copytree(
        source,
        target,
        copy_function=copy,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns(".ipynb_checkpoints"),
    )


def main(arguments):
    from jupyterlab.labapp import main as jupyterlab

    copy_new(ROOT / "notebooks", ROOT / "my")
    lesson = min((ROOT / "my").glob("[0-9][0-9]_*.ipynb"))
    os.environ["NORMLIB_PROGRESS"] = "1"
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the lessons' tensors are small: more threads are slower
    # The default address and not a file to open: so the link that a server prints leads to the lesson too.
    own = [f"--ServerApp.root_dir={ROOT}", f"--LabApp.default_url=/lab/tree/my/{lesson.name}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        own.append("--allow-root")  # in a container everyone is root, and Jupyter would refuse to start
    return jupyterlab([*own, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
