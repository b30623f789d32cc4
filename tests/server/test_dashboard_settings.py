"""The dashboard's settings: in the file, on the command line, and as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetspark.server.flags import options_from, parse_command_line
from jetspark.server.options_reader import ConfigFileError, read_config_file


def read(tmp_path: Path, text: str) -> tuple[bool, bool]:
    file = tmp_path / "server.conf"
    file.write_text(text)
    options, _ = read_config_file(str(file))
    return options.dashboard.enabled, options.dashboard.allow_changes


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("port: 4222", (True, False)),
        ("dashboard: false", (False, False)),
        ("dashboard { allow_changes: true }", (True, True)),
        ("dashboard { enabled: false }", (False, False)),
    ],
)
def test_the_file_says_whether_there_is_a_page_and_whether_it_may_change_anything(
    tmp_path: Path, text: str, wanted: tuple[bool, bool]
) -> None:
    assert read(tmp_path, text) == wanted


def test_an_unknown_setting_of_the_block_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match='unknown field "allow_change"'):
        read(tmp_path, "dashboard { allow_change: true }")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], (True, False)),
        (["--dashboard_changes"], (True, True)),
        (["--dashboard=false"], (False, False)),
    ],
)
def test_so_does_the_command_line(words: list[str], wanted: tuple[bool, bool]) -> None:
    options, _ = options_from(parse_command_line(words))

    assert (options.dashboard.enabled, options.dashboard.allow_changes) == wanted
