"""Write the blocking face of the client from the asyncio one.

The two faces differ in how they wait and in nothing else, so only the files that wait by themselves (`DRIVERS`) are
written by hand in both; the rest of `client/sync` is the source of `client/aio` with its `async` and `await` taken out.

    python tools/generate_sync.py           write the files
    python tools/generate_sync.py --check   say which files are out of date, and fail if there are any
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parent.parent / "src" / "jetspark" / "client"
# Written by hand on both faces.
DRIVERS = {"link.py", "shared_wire.py", "waiting.py", "wire.py"}
NOTICE = "# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.\n"

WORDS = [
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__aiter__\b", "__iter__"),
    (r"\b__anext__\b", "__next__"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncIterable\b", "Iterable"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\banext\(", "next("),
    (r"jetspark\.client\.aio\b", "jetspark.client.sync"),
    (r"The asyncio client", "The blocking client"),
    (r"Await it, or call `wait`", "Call `wait`"),
]


def translate(source: str) -> str:
    """The blocking twin of an asyncio module."""
    for pattern, replacement in WORDS:
        source = re.sub(pattern, replacement, source)
    return NOTICE + source


def sources() -> list[Path]:
    """The asyncio modules that have a generated twin."""
    return sorted(path for path in (CLIENT / "aio").glob("*.py") if path.name not in DRIVERS)


def is_current(path: Path) -> bool:
    """The twin says the same, apart from how its lines are broken."""
    twin = CLIENT / "sync" / path.name
    if not twin.exists():
        return False
    return _meaning(translate(path.read_text("utf-8"))) == _meaning(twin.read_text("utf-8"))


def _meaning(source: str) -> list[str]:
    """A module without its layout: the order of imports differs because the names in them do."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            node.names.sort(key=lambda alias: alias.name)
    body = tree.body
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    blocks = [node for node in body if isinstance(node, ast.If)]
    rest = [node for node in body if node not in imports and node not in blocks]
    guarded = [inner for block in blocks for inner in block.body]
    return sorted(ast.dump(node) for node in imports + guarded) + [ast.dump(node) for node in rest]


def main(arguments: list[str]) -> int:
    """Write the twins, or check them."""
    if "--check" in arguments:
        stale = [path.name for path in sources() if not is_current(path)]
        for name in stale:
            sys.stderr.write(f"client/sync/{name} is not what client/aio/{name} gives\n")
        return 1 if stale else 0
    names = {path.name for path in sources()}
    for path in sources():
        (CLIENT / "sync" / path.name).write_text(translate(path.read_text("utf-8")), "utf-8")
    for path in (CLIENT / "sync").glob("*.py"):
        if path.name not in names | DRIVERS:
            path.unlink()
    ruff = Path(sys.executable).parent / "ruff"
    for command in (["check", "-q", "--select", "I", "--fix"], ["format", "-q"]):
        subprocess.run([str(ruff), *command, str(CLIENT / "sync")], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
