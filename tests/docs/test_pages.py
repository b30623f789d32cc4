"""What the documentation says works: its code runs, its links lead somewhere, its site builds."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import jetspark
import jetspark.spark
from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.stream_config import StreamConfig
from jetspark.client import api_errors
from jetspark.client import errors as client_errors
from jetspark.server.options import Options
from jetspark.server.options_reader import _REFUSED, _WITHOUT_EFFECT, OptionsReader
from jetspark.server.usage import USAGE
from jetspark.spark import pipelines
from jetspark.testing.processes import jetspark_server_command, server_process
from tests.docs.blocks import blocks, commands

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("blocks.py")
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SPARK = re.compile(r"\bspark\.")
_DOCUMENTED = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
# Methods without an underscore that only the client itself calls; `filters` in mkdocs.yml leaves them out.
INTERNAL = re.compile(
    r"\.(read|document|resolve|fail|mark|saw_pin|lost_pin|make|make_again|consume_made|begin|ack_allowed)$"
)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def uses_spark(page: Path) -> bool:
    return any(_SPARK.search(block.text) and not block.not_run for block in blocks(page) if block.language == "python")


def runnable(page: Path) -> bool:
    wanted = [block for block in blocks(page) if not block.not_run]
    return any(block.language == "python" or (block.language == "console" and any(commands(block))) for block in wanted)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page) and not uses_spark(page)], ids=page_id)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    (told,) = run_pages([page], tmp_path, timeout_s=50)

    assert told["error"] == ""
    assert told["count"] > 0


@pytest.fixture(scope="module")
def spark_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of each page with Spark. One program runs all of them, because starting Java is what takes time."""
    pages = [page for page in PAGES if uses_spark(page)]
    return {told["page"]: told for told in run_pages(pages, tmp_path_factory.mktemp("pages"), timeout_s=450)}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(500)
@pytest.mark.parametrize("page", [page for page in PAGES if uses_spark(page)], ids=page_id)
def test_the_spark_code_of_a_page_runs(page: Path, spark_pages: dict[str, dict[str, Any]]) -> None:
    told = spark_pages[str(page)]

    assert told["error"] == ""
    assert told["count"] > 0


def run_pages(pages: list[Path], folder: Path, timeout_s: float) -> list[dict[str, Any]]:
    # A process of its own: a page may leave threads and connections behind, and has its own folder to write to.
    with contextlib.ExitStack() as stack:
        arguments = []
        for page in pages:
            server = stack.enter_context(server_process(jetspark_server_command()))
            arguments += [str(page), f"nats://{server.host}:{server.port}"]
        command = [sys.executable, str(RUNNER), *arguments]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith('{"page"')]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = []
    for target in _LINK.findall(text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def anchors(page: Path) -> set[str]:
    """The anchors that headings get on the site and on code hosts, and those of what the site makes of docstrings."""
    text = page.read_text(encoding="utf-8")
    found = set(_DOCUMENTED.findall(text))
    for heading in _HEADING.findall(text):
        words = re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower())
        found.add(re.sub(r"\s+", "-", words.strip()))
    return found


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert result.returncode == 0, result.stderr + result.stdout
    assert (tmp_path / "site" / "index.html").exists()
    client = (tmp_path / "site" / "reference" / "client" / "index.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'id="jetspark\.(\w+\.\w+)"', client))
    missing = {
        f"{name}.{member}"
        for name, kind in ((name, getattr(jetspark, name)) for name in jetspark.__all__)
        if isinstance(kind, type)
        for member, value in inspect.getmembers(kind)
        if not member.startswith("_") and (callable(value) or isinstance(value, property)) and not hasattr(list, member)
    }
    assert {name for name in missing - shown if not INTERNAL.search(name)} == set()
    assert {name for name in shown if INTERNAL.search(name)} == set()


def test_the_configuration_page_names_every_flag_and_every_setting_of_the_file() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    known = OptionsReader(Options())._handlers()
    silent = {*_REFUSED, *_WITHOUT_EFFECT}
    assert USAGE.strip("\n") in page
    assert [name for name in known if name not in silent and f"`{name}`" not in page] == []


@pytest.mark.parametrize("page", ["client", "server", "spark"])
def test_the_reference_has_every_public_name(page: str) -> None:
    names = {f"jetspark.{name}" for name in jetspark.__all__ if name not in ("__version__", "sync")}
    of_the_server = {"jetspark.serve", "jetspark.serve_async"}
    wanted = {
        "client": names - of_the_server,
        "server": of_the_server,
        "spark": {
            *(f"jetspark.spark.{name}" for name in jetspark.spark.__all__),
            *(f"jetspark.spark.pipelines.{name}" for name in pipelines.__all__ if not name.isupper()),
        },
    }[page]
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")
    assert wanted - set(_DOCUMENTED.findall(text)) == set()


def test_the_page_of_settings_names_every_one_of_streams_and_consumers() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    streams, _, consumers = page.partition("## Consumers")
    for config, text in ((StreamConfig, streams), (ConsumerConfig, consumers)):
        assert [field.name for field in fields(config) if field.name != "extra" and f"`{field.name}`" not in text] == []


def test_the_page_of_errors_names_classes_there_are() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+Error)`", page)) - {"TimeoutError", "ValueError", "KeyError"}
    of_spark = {"DataLossError", "SinkError", "BadOffsetError", "PipelineError", "JetsparkError"}
    known = {*vars(client_errors), *vars(api_errors), *of_spark}
    assert named - known == set()
