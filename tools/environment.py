"""Make .venv: this package (editable) and its extras, with exactly what constraints.txt names.

A stamp, removed first and written last, tells what was installed: while it fits, nothing is done;
where there is none, an installation was interrupted, and .venv is made anew. A failure ends in a
sentence on what to do. TORCH=2.11.0 in the environment installs that torch with what it brings
along; all the rest stays as pinned.
"""

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "installed.sha256"
CONSTRAINTS = ROOT / "constraints.txt"
TORCH = os.environ.get("TORCH", "")
# Makes the signals, which takes seconds, before a lesson needs them
SIGNALS = "from normcourse import training; training.signals()"
COMES_WITH_TORCH = ("torch==", "triton==", "nvidia-", "cuda-")


def goal():
    """What the stamp has to say, by the clone's path, TORCH and the files that pin versions.

    The path belongs to it because an editable install points to where the clone was.
    """
    text = f"{ROOT}\n{TORCH}" + "".join(
        (ROOT / name).read_text() for name in ("constraints.txt", "pyproject.toml")
    )
    return hashlib.sha256(text.encode()).hexdigest()


def runs():
    """False too when the Python that .venv was made from has been removed."""
    try:
        return subprocess.run([PYTHON, "-c", ""], capture_output=True).returncode == 0
    except OSError:
        return False


def make_venv():
    if importlib.util.find_spec("ensurepip") is None:  # Debian and Ubuntu ship it apart
        package = "python{}.{}-venv".format(*sys.version_info)
        sys.exit(
            f"To make .venv, run `sudo apt install {package}` first, then the same command again."
        )
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", VENV], capture_output=True, text=True
    )
    if made.returncode:
        reason = (made.stderr + made.stdout).strip().splitlines()[-1:]
        sys.exit(
            f"{sys.executable} could not make .venv {reason}: mend that, "
            "then run the same command again."
        )


def constraints() -> Path:
    """constraints.txt; for another torch a copy in .venv without the one that is pinned."""
    if not TORCH:
        return Path("constraints.txt")
    lines = CONSTRAINTS.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(COMES_WITH_TORCH)]
    path = VENV / "constraints.txt"
    path.write_text("\n".join([*kept, f"torch=={TORCH}", ""]))
    return path


def pip(*arguments):
    install = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install"]
    command = [*install, "-c", str(constraints()), *arguments]
    if subprocess.run(command, cwd=ROOT).returncode:
        sys.exit(
            f"Installing {arguments[-1]} failed: mend what pip says above "
            "(often network or disk space, "
            "or a Python too new for the constraints: PYTHON= names another), "
            "then run the same command again."
        )


def install() -> None:
    print("Making the environment in .venv: some minutes, once.", flush=True)
    if not (STAMP.exists() and runs()):
        make_venv()
    STAMP.unlink(missing_ok=True)
    pip("setuptools")
    if torch_args := shlex.split(os.environ.get("TORCH_ARGS", "")):
        # the rest of torch's needs comes from the usual index
        pip("--no-deps", *torch_args, "torch")
    # so that the constraints hold for setuptools as well
    pip("--no-build-isolation", "-e", ".[lab,test,web]")
    subprocess.run([PYTHON, "-c", SIGNALS], cwd=ROOT, capture_output=True)
    STAMP.write_text(goal())


if __name__ == "__main__":
    try:
        if not (STAMP.exists() and STAMP.read_text() == goal() and runs()):
            install()
    except KeyboardInterrupt:
        sys.exit(
            "Interrupted before .venv was complete: run the same command again, it starts over."
        )
