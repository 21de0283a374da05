"""Gets a script of bench ready: installs what it needs by scripts/setup, or says in one line what to type.

Imports nothing but the standard library, so that a script can call it before its own imports.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VENV = ROOT / "build/venv/bin/python"
LACKING = "import importlib.util as u, sys; sys.exit(any(u.find_spec(name) is None for name in sys.argv[1:]))"


def lacking(modules: list[str]) -> list[str]:
    return [name for name in modules if importlib.util.find_spec(name) is None]


def venv_has(modules: list[str]) -> bool:
    return VENV.exists() and subprocess.run([VENV, "-c", LACKING, *modules], check=False).returncode == 0


def python_with(script: str, about: str, modules: list[str], sets: list[str]) -> None:
    """Returns where Python has the modules; otherwise installs the sets and goes on as build/venv's Python, or says what to type."""
    missing = lacking(modules)
    if not missing:
        return
    wants_help = bool({"-h", "--help"} & set(sys.argv[1:]))
    if not venv_has(modules) and not wants_help and os.environ.get("XYNTRA_SETUP") != "no":
        subprocess.run([ROOT / "scripts/setup", *sets], stdout=sys.stderr, check=False)
    if venv_has(modules):
        os.execv(VENV, [str(VENV), *sys.argv])
    remedy = f"{script}: Python has no {', '.join(missing)}; type: scripts/setup {' '.join(sets)}"
    if wants_help:
        print(f"{about.strip()}\n\nThe flags are shown once it is set up. {remedy}")
        sys.exit(0)
    sys.exit(remedy)


def need(script: str, path: pathlib.Path | str | None, remedy: str) -> None:
    """A file that must be there before anything is measured."""
    if path is None:
        sys.exit(f"{script}: type: {remedy}")
    if not pathlib.Path(path).exists():
        sys.exit(f"{script}: there is no {os.path.relpath(path)}; type: {remedy}")


BUILD = "scripts/setup build && scripts/build release"
