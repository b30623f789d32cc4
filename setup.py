"""Builds the wheel: compiles the hot rooms with mypyc, or ships them plain on a machine without a C compiler.

The compiled modules form one group, so calls between them are native. Every `.py` file is shipped beside its compiled
twin, which is what JETSPARK_PURE=1 runs. What was decided is written to `jetspark/_build_note.txt`, because pip hides
the output of a build that succeeds. A machine that has a compiler and cannot compile ends the build with an error: a
server that is several times slower would be a poor surprise.
"""

import contextlib
import io
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOMS = ("protocol", "store", "broker", "client/core")
# Commands that produce files to install. The others (sdist, metadata) need no compiled code.
BUILDING_COMMANDS = {"build", "build_ext", "bdist_wheel", "install"}
SOURCE = Path("src", "jetspark")
GROUP = "jetspark._native"

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


def failure(what: str) -> SystemExit:
    """Return the error that ends the build, with the way around it."""
    return SystemExit(f"jetspark build: {what}\nSet JETSPARK_PURE=1 to install plain Python, which is slower.")


def extensions() -> list[Extension]:
    """Decide what to compile: everything, or nothing when that was asked for or there is no compiler."""
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
            # One C file for each module: two compilers side by side take a third of the time and a tenth of the memory
            # of one large file, and the code is as fast.
            built = mypycify(
                options + modules_to_compile(),
                opt_level="2", debug_level="0", multi_file=True, group_name=GROUP,
            )  # fmt: skip
    # mypyc ends the process with SystemExit when the source does not type-check.
    except (Exception, SystemExit) as error:
        raise failure(f"mypyc failed ({type(error).__name__}): {output.getvalue() or error}") from None
    for extension in built:
        # A newer compiler with a new warning should not cost a user the compiled build.
        extension.extra_compile_args = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
        # The files of a group with a dot in its name include each other relative to the folder of its first part, too.
        extension.include_dirs.append(str(Path(*["build", *GROUP.split(".")[:-1]])))
    say("compiled")
    # Once setuptools is imported there is no other kind.
    return cast("list[Extension]", list(built))


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
        """Run as many C compilers as there are processors."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count() or 1

    def build_extensions(self) -> None:
        """Compile files side by side. By itself setuptools does so with extensions, and one has nearly all files."""
        compile_files = self.compiler.compile
        with ThreadPoolExecutor(self.parallel) as pool:

            def compile_side_by_side(sources: list[str], **options: Any) -> list[str]:
                made = pool.map(lambda source: compile_files([source], **options), sources)
                return [name for names in made for name in names]

            self.compiler.compile = compile_side_by_side
            super().build_extensions()

    def run(self) -> None:
        """Compile outside the source tree."""
        if self.inplace:
            # Compiled files inside src would shadow the edits an editable install is for.
            say("plain: editable installs are never compiled")
            self.extensions = []
            return
        try:
            super().run()
        except Exception as error:
            raise failure(f"the C compiler failed ({type(error).__name__}), its message is above") from None
        write_note(self.build_lib)


def write_note(build_lib: str) -> None:
    """Leave the decision where `jetspark._build` reads it."""
    Path(build_lib, "jetspark", "_build_note.txt").write_text(note + "\n")


setup(
    ext_modules=extensions() if BUILDING_COMMANDS & set(sys.argv) else [],
    cmdclass={"build_py": BuildPlain, "build_ext": BuildCompiled},
)
