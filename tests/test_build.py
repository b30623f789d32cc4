"""The compiled and the plain build: one install runs both, and says which one it is."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
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
    assert run_python("-m", "jetspark.cli.main", "--version") == f"jetspark {jetspark.__version__} ({_build.KIND})\n"


def test_version_says_plain_when_plain_is_forced() -> None:
    version = run_python("-m", "jetspark.cli.main", "--version", JETSPARK_PURE="1")

    assert version == f"jetspark {jetspark.__version__} (plain)\n"


def test_forcing_plain_loads_every_module_from_its_source() -> None:
    files = json.loads(run_python("-c", LIST_FILES_OF_COMPILED_ROOMS, JETSPARK_PURE="1"))

    assert files
    assert {name: file for name, file in files.items() if not file.endswith(".py")} == {}


@pytest.mark.skipif(not _build.IS_COMPILED, reason="the plain build is under test")
def test_the_compiled_build_loads_no_hot_module_from_its_source() -> None:
    files = json.loads(run_python("-c", LIST_FILES_OF_COMPILED_ROOMS, JETSPARK_PURE=""))

    assert files
    assert {name: file for name, file in files.items() if file.endswith(".py")} == {}


def test_a_machine_that_can_compile_did_compile() -> None:
    assert "failed" not in _build.NOTE


def test_the_client_half_needs_no_extra_package() -> None:
    loaded = run_python("-c", "import sys, jetspark, jetspark.client, jetspark.cli.main; print(*sys.modules)").split()

    assert {"uvloop", "aiohttp", "bcrypt", "pyarrow", "pyspark", "jetspark.server", "jetspark.broker"} & set(
        loaded
    ) == set()


def build_wheel(folder: Path, **environment: str) -> tuple[Path, str]:
    """Build a wheel from a copy of the source, so that nothing is left in the tree."""
    copy = folder / "source"
    copy.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(copy)]
    done = subprocess.run(
        command,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout
    [wheel] = (folder / "dist").glob("*.whl")
    return wheel, done.stdout


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

    wheel, output = build_wheel(tmp_path, **environment)

    assert wheel.name == f"jetspark-{jetspark.__version__}-py3-none-any.whl"
    assert [line for line in output.splitlines() if line.startswith("jetspark build:")] == [
        line for line in output.splitlines() if reason in line
    ]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert reason in archive.read("jetspark/_build_note.txt").decode()
    assert "jetspark/py.typed" in names
    assert [name for name in names if name.endswith((".so", ".pyd"))] == []


def test_every_compiled_room_is_a_package() -> None:
    for room in ("protocol", "store", "broker", "client.core"):
        assert importlib.import_module(f"jetspark.{room}").__doc__
