"""Freeze notes.py with a bundle into one folder that runs without Python.

python freeze.py BUNDLE OUT          OUT/notes/notes is the program; give the whole folder away
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import PyInstaller.__main__

HERE = Path(__file__).parent
PACKAGES = ("edgebert", "runtimes")  # their modules are found by name when they are needed
UNUSED = ("torch", "transformers", "pyarrow", "tkinter", "matplotlib", "PIL", "scipy", "hf_xet")


def main() -> None:
    """Run PyInstaller; the bundle goes in as the folder ``student``."""
    bundle, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    shutil.rmtree(out / "notes", ignore_errors=True)
    settings = ["--noconfirm", "--onedir", "--name", "notes", "--log-level", "WARN"]
    settings += ["--distpath", str(out), "--workpath", str(out / "work"), "--specpath", str(out)]
    settings += ["--paths", str(HERE.parents[1]), "--add-data", f"{bundle}:student"]
    for package in PACKAGES:
        settings += ["--collect-submodules", package]
    settings += ["--collect-all", "sqlite_vec", "--hidden-import", "apsw"]
    for package in UNUSED:
        settings += ["--exclude-module", package]
    PyInstaller.__main__.run([*settings, str(HERE / "notes.py")])


if __name__ == "__main__":
    main()
