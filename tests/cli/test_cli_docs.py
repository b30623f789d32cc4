"""docs/cli.md is made from the commands."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import click
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/generate_cli_docs.py, which is a program and not part of the package."""
    spec = importlib.util.spec_from_file_location("generate_cli_docs", ROOT / "tools" / "generate_cli_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@click.command()
@click.argument("target")
@click.option("--size", "-z", metavar="BYTES", default=3, show_default=True, help="How much|many")
@click.option("--secret", hidden=True)
def sample(target: str, size: int, secret: str) -> None:
    """Do it.

    \b
    first    line
    second   line
    """


def test_a_command_becomes_usage_words_and_a_table(tool: ModuleType) -> None:
    root = click.Context(click.Group("jetspark"), info_name="jetspark")

    text = tool.command_text(sample, root, "sample", ["s"], 3)

    assert text.startswith(
        "### jetspark sample\n\nAlso: `s`\n\n```text\njetspark sample [OPTIONS] TARGET\n```\n\nDo it.\n"
    )
    assert "```text\nfirst    line\nsecond   line\n```" in text
    assert "| `--size`, `-z` `BYTES` | How much\\|many [default: 3] |" in text
    assert "secret" not in text


def test_a_file_that_is_out_of_date_fails_the_check_and_writing_it_helps(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "cli.md"
    monkeypatch.setattr(tool, "TARGET", target)
    monkeypatch.setattr(tool, "document", lambda: "# As the commands are\n")
    target.write_text("# As they were\n")

    assert tool.main(["--check"]) == 1
    assert "-# As they were" in capsys.readouterr().err
    assert tool.main([]) == 0
    assert tool.main(["--check"]) == 0


def test_every_noun_of_this_half_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()

    for noun in ("account", "bench", "completion", "events", "kv", "object", "rtt", "server", "top"):
        assert f"\n## jetspark {noun}\n" in text
    for command in ("kv get", "bench js pub async", "bench js consume", "object seal", "account backup"):
        assert f" jetspark {command}\n" in text
