"""Builds the wheel: compiles the hot rooms with mypyc when it can, ships them plain when it cannot.

The compiled modules form one group, so calls between them are native. Every `.py` file is shipped beside its compiled
twin, which is what JETSPARK_PURE=1 runs. What was decided is written to `jetspark/_build_note.txt`, because pip hides
the output of a build that succeeds.
"""

import contextlib
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOMS = ("protocol", "store", "broker", "client/core")
# Commands that produce files to install. The others (sdist, metadata) need no compiled code.
BUILDING_COMMANDS = {"build", "build_ext", "bdist_wheel", "install"}
SOURCE = Path("src", "jetspark")

note = "plain: not built"


def say(line: str) -> None:
    """Record the decision and print it in one line."""
    global note
    note = line
    print(f"jetspark build: {line}", file=sys.stderr, flush=True)


def modules_to_compile() -> list[str]:
    """Return every module of the compiled rooms; a package's own __init__ holds no hot code and stays plain."""
    found = [path for room in ROOMS for path in (SOURCE / room).rglob("*.py") if path.name != "__init__.py"]
    return sorted(str(path) for path in found)


def compiler_problem() -> str:
    """Try the smallest extension module; an empty answer means that this machine can compile."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.sysconfig import customize_compiler, get_python_inc

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return PY_MAJOR_VERSION; }\n")
        try:
            compiler = new_compiler()
            customize_compiler(compiler)
            compiler.compile([str(source)], output_dir=folder, include_dirs=[get_python_inc()])
        except Exception as error:
            return f"no working C compiler with Python's headers ({type(error).__name__})"
    return ""


def extensions() -> list[Extension]:
    """Decide what to compile. Whatever stands in the way, the answer is the plain build, never a failed install."""
    if os.environ.get("JETSPARK_PURE", "") not in ("", "0"):
        say("plain: JETSPARK_PURE was set when it was built")
        return []
    problem = compiler_problem()
    if problem:
        say(f"plain: {problem}")
        return []
    output = io.StringIO()
    try:
        from mypyc.build import mypycify

        # Silent imports: a type error outside the compiled rooms is for `make check` to report, not for a user's pip.
        options = ["--follow-imports=silent", "--config-file="]
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            built = mypycify(
                options + modules_to_compile(), opt_level="2", debug_level="0", group_name="jetspark._native"
            )
    # mypyc ends the process with SystemExit when the source does not type-check.
    except (Exception, SystemExit) as error:
        first_line = next(iter(output.getvalue().splitlines()), str(error))
        say(f"plain: mypyc failed ({type(error).__name__}: {first_line})")
        return []
    for extension in built:
        # A newer compiler with a new warning should not cost a user the compiled build.
        extension.extra_compile_args = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
    say("compiled")
    return list(built)


class BuildPlain(build_py):
    """Copies the Python files into a clean folder and leaves the note beside them."""

    def run(self) -> None:
        """Copy, then write the note."""
        # Modules removed from the source, or compiled by an earlier build, must not reach the wheel.
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            write_note(self.build_lib)


class BuildCompiled(build_ext):
    """Compiles all or nothing: half a group cannot be imported."""

    def finalize_options(self) -> None:
        """Build the modules' small shims beside the one large library."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count() or 1

    def run(self) -> None:
        """Compile outside the source tree; on any failure take the compiled files away again."""
        if self.inplace:
            # Compiled files inside src would shadow the edits an editable install is for.
            say("plain: editable installs are never compiled")
            self.extensions = []
            return
        try:
            super().run()
        except Exception as error:
            for path in Path(self.build_lib).rglob("*"):
                if path.suffix in (".so", ".pyd"):
                    path.unlink()
            self.extensions = []
            say(f"plain: the C compiler failed ({type(error).__name__})")
        write_note(self.build_lib)


def write_note(build_lib: str) -> None:
    """Leave the decision where `jetspark._build` reads it."""
    Path(build_lib, "jetspark", "_build_note.txt").write_text(note + "\n")


setup(
    ext_modules=extensions() if BUILDING_COMMANDS & set(sys.argv) else [],
    cmdclass={"build_py": BuildPlain, "build_ext": BuildCompiled},
)
