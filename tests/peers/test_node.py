"""`@nats-io/jetstream`, the JavaScript client, does the examples of the specification against our server.

The packages are installed once into the build folder, never into the source tree.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]
SOURCE = Path(__file__).parent / "node"
WORK = Path(__file__).parents[2] / "build" / "peers-node"
EXAMPLES = re.findall(r"^  async (\w+)\(", (SOURCE / "examples.mjs").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="session")
def node_examples() -> Path:
    """The script beside its installed packages; skips, saying why, where Node or its registry is missing."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    WORK.mkdir(parents=True, exist_ok=True)
    wanted = json.loads((SOURCE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    if installed_versions(list(wanted)) != wanted:
        shutil.copy(SOURCE / "package.json", WORK)
        command = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        result = subprocess.run(command, cwd=WORK, capture_output=True, text=True, check=False, timeout=200)
        if result.returncode != 0:
            pytest.skip(f"npm could not install the packages: {result.stderr.strip()[:300]}")
    shutil.copy(SOURCE / "examples.mjs", WORK)
    return WORK / "examples.mjs"


def installed_versions(names: list[str]) -> dict[str, str]:
    versions = {}
    for name in names:
        path = WORK / "node_modules" / name / "package.json"
        if path.exists():
            versions[name] = json.loads(path.read_text(encoding="utf-8"))["version"]
    return versions


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_in_javascript(name: str, node_examples: Path, server_url: str) -> None:
    command = ["node", str(node_examples), server_url, name]

    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert result.returncode == 0, result.stderr[-2000:]
