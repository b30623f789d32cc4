"""Which build runs: the modules mypyc compiled, or the same source in plain Python.

Decided once, when `jetspark` is first imported. With JETSPARK_PURE=1 in the environment the `.py` file next to a
compiled module wins, so one install can be run (and tested) both ways. Always plain Python itself.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Final

PACKAGE_DIR: Final = Path(__file__).parent
IS_PURE_FORCED: Final = os.environ.get("JETSPARK_PURE", "") not in ("", "0")


class SourceFirstFinder:
    """Finds jetspark's modules by their source files only, never by compiled ones."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Answer for submodules of jetspark; None leaves every other import to the usual finders."""
        if path is None or not name.startswith("jetspark."):
            return None
        for folder in path:
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def _has_compiled_modules() -> bool:
    # The compiled rooms share one library: it is there with all of them or not at all.
    return any((PACKAGE_DIR / f"_native__mypyc{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


def _read_note() -> str:
    # Written by setup.py; absent in a source tree.
    path = PACKAGE_DIR / "_build_note.txt"
    return path.read_text(encoding="utf-8").strip() if path.exists() else "plain: run from the source tree"


IS_COMPILED: Final = not IS_PURE_FORCED and _has_compiled_modules()
KIND: Final = "compiled" if IS_COMPILED else "plain"
# How this copy was built, which JETSPARK_PURE does not change: "compiled", or "plain: " and the reason.
NOTE: Final = _read_note()
# Which build runs, for people: "compiled", or "plain: " and the reason.
DESCRIPTION: Final = "plain: JETSPARK_PURE is set" if IS_PURE_FORCED and NOTE == "compiled" else NOTE


def install_finder() -> None:
    """Make JETSPARK_PURE=1 hold for every later import of a jetspark module."""
    if IS_PURE_FORCED and SourceFirstFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFirstFinder)
