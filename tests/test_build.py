"""The compiled and the plain build: one install runs both, and says which one it is."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import jetspark
from jetspark import _build

ROOT = Path(__file__).parent.parent
LIST_FILES_OF_COMPILED_ROOMS = """
import importlib, json, pkgutil
files = {}
for room in ("protocol", "store", "broker", "client.core"):
    package = importlib.import_module("jetspark." + room)
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.ispkg:
            files[found.name] = importlib.import_module(found.name).__file__
print(json.dumps(files))
"""


def run_python(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    return done.stdout


def test_version_says_which_build_runs() -> None:
    assert (
        run_python("-m", "jetspark.cli.main", "--version")
        == f"jetspark {jetspark.__version__} ({_build.DESCRIPTION})\n"
    )
    assert _build.DESCRIPTION == "compiled" or re.fullmatch("plain: .+", _build.DESCRIPTION)


def test_version_says_plain_when_plain_is_forced() -> None:
    version = run_python("-m", "jetspark.cli.main", "--version", JETSPARK_PURE="1")

    reason = "JETSPARK_PURE is set" if _build.NOTE == "compiled" else _build.NOTE.removeprefix("plain: ")
    assert version == f"jetspark {jetspark.__version__} (plain: {reason})\n"


@pytest.mark.long
def test_forcing_plain_loads_every_module_from_its_source() -> None:
    files = json.loads(run_python("-c", LIST_FILES_OF_COMPILED_ROOMS, JETSPARK_PURE="1"))

    assert files
    assert {name: file for name, file in files.items() if not file.endswith(".py")} == {}


@pytest.mark.skipif(not _build.IS_COMPILED, reason="the plain build is under test")
def test_the_compiled_build_loads_no_hot_module_from_its_source() -> None:
    files = json.loads(run_python("-c", LIST_FILES_OF_COMPILED_ROOMS, JETSPARK_PURE=""))

    assert files
    assert {name: file for name, file in files.items() if file.endswith(".py")} == {}


def test_the_client_half_needs_no_extra_package() -> None:
    loaded = run_python("-c", "import sys, jetspark, jetspark.client, jetspark.cli.main; print(*sys.modules)").split()

    assert {"uvloop", "aiohttp", "bcrypt", "pyarrow", "pyspark", "jetspark.server", "jetspark.broker"} & set(
        loaded
    ) == set()


def copy_source(folder: Path, without: Sequence[str] = ()) -> Path:
    """Copy what a wheel is built from, so that nothing is left in the tree."""
    copy = folder / "source"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", *without))
    return copy


def build_wheel(source: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(source.parent / "dist"),
        str(source),
    ]
    return subprocess.run(
        command,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"JETSPARK_PURE": "1"}, "JETSPARK_PURE was set"),
        ({"CC": "no-such-compiler", "JETSPARK_PURE": ""}, "no working C compiler"),
    ],
    ids=["forced", "no-compiler"],
)
def test_a_plain_wheel_fits_every_machine_and_says_why_it_is_plain(
    tmp_path: Path, environment: dict[str, str], reason: str
) -> None:
    pytest.importorskip("build", reason="the `build` package of the dev dependencies makes the wheel")

    done = build_wheel(copy_source(tmp_path), **environment)

    assert done.returncode == 0, done.stdout
    [wheel] = (tmp_path / "dist").glob("*.whl")
    assert wheel.name == f"jetspark-{jetspark.__version__}-py3-none-any.whl"
    assert [line for line in done.stdout.splitlines() if line.startswith("jetspark build:")] == [
        line for line in done.stdout.splitlines() if reason in line
    ]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert reason in archive.read("jetspark/_build_note.txt").decode()
    assert "jetspark/py.typed" in names
    assert [name for name in names if name.endswith((".so", ".pyd"))] == []


# Enough to compile something, and no more: all rooms take a minute.
ALL_BUT_PROTOCOL = ("api", "broker", "cli", "client", "server", "spark", "store", "testing")
# Compiles the probe, and fails on anything that has a name of the project.
BROKEN_COMPILER = """#!/bin/sh
case "$*" in *jetspark*) echo "internal compiler error" >&2; exit 4;; *) exec cc "$@";; esac
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here to break")
def test_a_failed_compile_ends_the_build_and_says_what_to_do(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(BROKEN_COMPILER)
    compiler.chmod(0o755)

    done = build_wheel(copy_source(tmp_path, ALL_BUT_PROTOCOL), CC=str(compiler), JETSPARK_PURE="")

    assert done.returncode != 0
    assert "internal compiler error" in done.stdout
    assert "jetspark build: the C compiler failed (" in done.stdout
    assert "Set JETSPARK_PURE=1 to install plain Python" in done.stdout
    assert list(tmp_path.glob("dist/*")) == []


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(shutil.which("cc") is None, reason="without a C compiler mypyc is not asked")
def test_source_that_mypyc_refuses_ends_the_build_and_is_named(tmp_path: Path) -> None:
    source = copy_source(tmp_path, ALL_BUT_PROTOCOL)
    (source / "src" / "jetspark" / "protocol" / "wrong.py").write_text('size: int = "many"\n')

    done = build_wheel(source, JETSPARK_PURE="")

    assert done.returncode != 0
    assert "jetspark build: mypyc failed (SystemExit): src/jetspark/protocol/wrong.py:1: error: " in done.stdout
    assert "Set JETSPARK_PURE=1 to install plain Python" in done.stdout


def test_every_compiled_room_is_a_package() -> None:
    for room in ("protocol", "store", "broker", "client.core"):
        assert importlib.import_module(f"jetspark.{room}").__doc__
