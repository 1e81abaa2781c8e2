"""KaTeX, reveal.js and axe-core into build/libraries, once, through npm.

editions/libraries.json names exact versions, the checksum of each package and the files that are
used. Nothing of them is committed.
"""

import fnmatch
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "editions" / "libraries.json"
FOLDER = ROOT / "build" / "libraries"
STAMP = FOLDER / "fetched.json"  # a copy of the list, written last


def fetch_libraries() -> None:
    """Nothing is fetched while the stamp fits the list; node is needed for every build."""
    program("node")
    if STAMP.is_file() and STAMP.read_text() == LIST.read_text():
        return
    npm = program("npm")
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, library in json.loads(LIST.read_text()).items():
        with tempfile.TemporaryDirectory() as folder:
            package = packed(npm, f"{name}@{library['version']}", Path(folder))
            check_sum(name, package, library["sha256"])
            unpack(package, library["files"], FOLDER / library["folder"])
    STAMP.write_text(LIST.read_text())


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        sys.exit(f"{name} is missing; the pages need it, for KaTeX: install Node.js with npm.")
    return found


def packed(npm: str, package: str, folder: Path) -> Path:
    """The package as the registry has it."""
    command = [npm, "pack", "--silent", "--pack-destination", str(folder), package]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found = list(folder.glob("*.tgz"))
    if run.returncode or not found:
        reason = (run.stderr.strip() or run.stdout.strip() or "no answer").splitlines()[-1]
        sys.exit(f"npm could not fetch {package} (is there a network?): {reason}")
    return found[0]


def check_sum(name: str, package: Path, expected: str) -> None:
    got = hashlib.sha256(package.read_bytes()).hexdigest()
    if got != expected:
        sys.exit(
            f"{name} has the checksum {got}, editions/libraries.json says {expected}: "
            "what came is not the package that was tested, so it is not used."
        )


def unpack(package: Path, files: dict[str, str], goal: Path) -> None:
    """Only the files on the list; a pattern's matches go into a folder."""
    goal.mkdir(parents=True, exist_ok=True)
    with tarfile.open(package) as archive:
        for pattern, target in files.items():
            members = [m for m in archive.getmembers() if fnmatch.fnmatch(m.name, pattern)]
            if not members:
                sys.exit(f"{package.name} has no {pattern}: mend editions/libraries.json.")
            for member in members:
                name = target + Path(member.name).name if target.endswith("/") else target
                path = goal / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if content := archive.extractfile(member):  # None for a folder
                    path.write_bytes(content.read())


if __name__ == "__main__":
    fetch_libraries()
