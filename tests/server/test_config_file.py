"""The configuration file's format: what the text means, and where each key stood."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest

from jetspark.server.config_file import ConfigSyntaxError, Node, digest, parse_file, parse_text
from jetspark.testing.processes import nats_server_command


def values(text: str, environment: dict[str, str] | None = None) -> object:
    return plain(parse_text(text, environment=environment or {}))


def plain(value: object) -> object:
    if isinstance(value, Node):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


@pytest.mark.parametrize("text", ["port: 4222", "port = 4222", "port 4222", "port:4222", "port=4222;", "{port: 4222}"])
def test_a_key_and_its_value_may_be_joined_in_several_ways(text: str) -> None:
    assert values(text) == {"port": 4222}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("-12", -12),
        ("1.50", 1.5),
        ("-2.5", -2.5),
        ("1k", 1000),
        ("1KB", 1024),
        ("2Ki", 2048),
        ("2KiB", 2048),
        ("3m", 3_000_000),
        ("3MB", 3 * 1024**2),
        ("1g", 10**9),
        ("1GiB", 1024**3),
        ("1t", 10**12),
        ("1TB", 1024**4),
        ("1p", 10**15),
        ("1e", 10**18),
        ("true", True),
        ("Yes", True),
        ("ON", True),
        ("false", False),
        ("no", False),
        ("off", False),
        ("2s", "2s"),
        ("1kx", "1kx"),
        ("127.0.0.1:4222", "127.0.0.1:4222"),
        ("0.0.0.0", "0.0.0.0"),
        ("foo.>", "foo.>"),
        ("a#b", "a#b"),
        ("a//b", "a//b"),
        ("/var/data", "/var/data"),
        ("'a\\nb'", "a\\nb"),
        ('"a\\tb\\n\\"\\\\\\x41"', 'a\tb\n"\\A'),
        ("bare\\tword", "bare\tword"),
        ("2023-05-01T10:00:00Z", datetime.datetime(2023, 5, 1, 10, tzinfo=datetime.UTC)),
        ("$2a$11$abc.def/ghi", "$2a$11$abc.def/ghi"),
        ("$2b$04$abc", "$2b$04$abc"),
        ("(\nline one\n  line two)\n)", "\nline one\n  line two)\n"),
    ],
)
def test_a_word_becomes_the_value_it_looks_like(word: str, value: object) -> None:
    assert values(f"key: {word}\n") == {"key": value}


def test_maps_and_lists_may_be_spread_over_lines_with_comments() -> None:
    text = """
    # a comment
    server {            // another
      name: alpha, tags: [ a, b
        c # last
      ]
      inner = { "quoted key": 1; 'other' 2 }
    }
    empty_list: []
    """

    assert values(text) == {
        "server": {"name": "alpha", "tags": ["a", "b", "c"], "inner": {"quoted key": 1, "other": 2}},
        "empty_list": [],
    }


def test_json_is_valid() -> None:
    assert values('{"port": 4222, "users": [{"user": "a"}, {"user": "b"}]}') == {
        "port": 4222,
        "users": [{"user": "a"}, {"user": "b"}],
    }


def test_a_variable_is_looked_up_in_the_nearest_map_first_and_the_environment_last() -> None:
    text = """
    x: outer
    y: only-outer
    block { x: inner, a: $x, b: $y, c: $FROM_ENV }
    d: $x
    """

    assert values(text, {"FROM_ENV": "64MB", "x": "never"}) == {
        "x": "outer",
        "y": "only-outer",
        "block": {"x": "inner", "a": "inner", "b": "only-outer", "c": 64 * 1024**2},
        "d": "outer",
    }


def test_a_variable_may_stand_for_a_whole_map() -> None:
    assert values("rules: {publish: a}\nuser {permissions: $rules}") == {
        "rules": {"publish": "a"},
        "user": {"permissions": {"publish": "a"}},
    }


def test_a_key_used_as_a_variable_is_marked() -> None:
    document = parse_text("size: 1k\nother: 2\nport: $size\n", environment={})

    assert document["size"].is_used_variable
    assert not document["other"].is_used_variable


def test_an_unknown_variable_is_an_error_with_its_line() -> None:
    with pytest.raises(ConfigSyntaxError, match="variable reference for 'NOPE' on line 2 can not be found"):
        values("a: 1\nport: $NOPE\n")


def test_environment_variables_that_refer_to_each_other_in_a_circle_are_an_error() -> None:
    with pytest.raises(ConfigSyntaxError, match="variable reference cycle for 'A'"):
        values("port: $A", {"A": "$B", "B": "$A"})


def test_an_included_file_is_read_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "auth.conf").write_text("include deeper.conf\nuser: a\n")
    (tmp_path / "conf.d" / "deeper.conf").write_text("password: b\n")
    main = tmp_path / "main.conf"
    main.write_text('port: 4222\nauthorization { include "conf.d/auth.conf" }\n')

    assert plain(parse_file(str(main))) == {"port": 4222, "authorization": {"password": "b", "user": "a"}}


def test_a_key_from_an_included_file_is_placed_in_that_file(tmp_path: Path) -> None:
    (tmp_path / "part.conf").write_text("\n  bogus: 1\n")
    main = tmp_path / "main.conf"
    main.write_text("include part.conf\n")

    assert parse_file(str(main))["bogus"].place == f"{tmp_path}/part.conf:2:3"


def test_a_file_that_includes_itself_is_an_error(tmp_path: Path) -> None:
    main = tmp_path / "main.conf"
    main.write_text("include main.conf\n")

    with pytest.raises(ConfigSyntaxError, match="includes itself"):
        parse_file(str(main))


def test_a_missing_included_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    main = tmp_path / "main.conf"
    main.write_text("include nope.conf\n")

    with pytest.raises(ConfigSyntaxError, match=r"error parsing include file 'nope.conf', open .*: no such file"):
        parse_file(str(main))


def test_keys_know_their_line_and_column() -> None:
    document = parse_text('first: 1\n  second { "third": 3 }\n', "a.conf")

    assert document["first"].place == "a.conf:1:0"
    assert document["second"].place == "a.conf:2:3"
    inner = document["second"].value
    assert isinstance(inner, dict)
    assert inner["third"].place == "a.conf:2:13"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nport: [1, 2\n", 3),
        ("port: {\n", 2),
        ("port: 1 2\n", 1),
        ('port: "\\q"\n', 1),
        ("a: [x,,y]\n", 1),
        ("a: 'open\n", 2),
        ("a: 20-01-01\n", 1),
        ("a: .5\n", 1),
        ("a: (\nno end\n", 3),
        (":\n", 1),
        ("a: {b: c]\n}", 1),
        ("port:\n4222\n", 2),
    ],
)
def test_broken_text_is_an_error_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ConfigSyntaxError, match=f"Parse error on line {line}:"):
        parse_text(text, environment={})


def test_a_key_without_a_value_at_the_end_is_an_error() -> None:
    with pytest.raises(ConfigSyntaxError, match=r"config is invalid \(a.conf:2:1\)"):
        parse_text("port\n", "a.conf")


def test_nesting_without_end_is_an_error() -> None:
    with pytest.raises(ConfigSyntaxError, match="nested deeper"):
        parse_text("a: " + "[" * 5000)


def test_a_number_too_large_for_64_bits_is_an_error() -> None:
    with pytest.raises(ConfigSyntaxError, match="out of the range"):
        parse_text("a: 99e\n")


# nats-server prints a digest of the values it read: equal digests mean equal values.
DIGEST_TEXTS = [
    "port: 1\n",
    "server_tags: [a,b]\n",
    "x: (\nabc\n)\nserver_tags: $x\n",
    "port: 4222 # c\nhost: a//b\n",
    "jetstream\n{\n store_dir\n x\n}\n",
    "{port: 4222}}\n",
    'x: "\\x41\\x4a"\nserver_name: $x\n',
    "server_metadata {a: b;e f}\n",
    "PORT: 3\n",
    "max_payload: 1KB\nmax_pending: 3MiB\n",
    "x: -12\nping_max: $x\n",
    "authorization { user: a, password: $2a$11$aa }\n",
    "x: 2.50\nauthorization {timeout: $x}",
    "listen: 127.0.0.1:99\n",
    '{"port": 4222, "host": "127.0.0.1", "server_tags": ["a", "b"]}',
    'authorization { users = [ {user: a, password: "p<>&w", permissions: {publish: ["orders.>"]}} ] }',
    'host: "tab\\tq\\"\\\\"\n',
    "host: 'a\\nb'\n",
    "server_name: 1kx\n",
    "server_metadata { k: 1.2.3.4:5-6 }",
    "host: \u00e9\n",
    "debug true\ntrace=false;logtime: off\n",
]


@pytest.mark.oracle
def test_the_values_are_those_that_nats_server_reads(tmp_path: Path) -> None:
    command = nats_server_command()
    if command is None:
        pytest.skip("nats-server is not installed")
    file = tmp_path / "a.conf"
    for text in DIGEST_TEXTS:
        file.write_text(text)

        theirs = subprocess.run([*command, "-t", "-c", str(file)], capture_output=True, text=True, check=False).stderr

        assert digest(parse_file(str(file))) in theirs, text
