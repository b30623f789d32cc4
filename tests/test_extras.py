"""Without an optional part of the package, what needs it says which one to install."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("missing", "program", "advice"),
    [
        (
            "xxhash",
            "import jetspark; jetspark.serve",
            "jetspark.serve needs the server: pip install 'jetspark[server]'",
        ),
        ("pyspark", "import jetspark.spark; jetspark.spark.session()", "pip install 'jetspark[spark]'"),
    ],
)
def test_a_missing_extra_is_named(missing: str, program: str, advice: str) -> None:
    # None in sys.modules is Python's own way to say that a module is not to be had.
    code = f"import sys; sys.modules[{missing!r}] = None; {program}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=50)

    last = done.stderr.splitlines()[-1]
    assert last.startswith("jetspark.client.errors.MissingExtraError: ")
    assert last.endswith(advice)
