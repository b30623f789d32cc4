"""The command line: nats-server's flags, read as Go reads flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetspark.server.flags import UsageError, apply_flags, options_from, parse_command_line
from jetspark.server.options import Options, OptionsError


def options(*words: str) -> Options:
    return options_from(parse_command_line(words))[0]


@pytest.mark.parametrize(
    "words",
    [["-sd", "/data"], ["-sd=/data"], ["--sd", "/data"], ["--store_dir=/data"], ["-store_dir", "/data"]],
)
def test_one_or_two_dashes_and_an_equals_sign_or_a_space_mean_the_same(words: list[str]) -> None:
    assert options(*words).jetstream.store_dir == "/data"


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["-p", "-1"], "port", -1),
        (["--port", "5000"], "port", 5000),
        (["-p", "0"], "port", 4222),
        (["-a", "127.0.0.1"], "host", "127.0.0.1"),
        (["--addr", "h"], "host", "h"),
        (["--net", "h"], "host", "h"),
        (["-n", "x"], "server_name", "x"),
        (["--name", "x"], "server_name", "x"),
        (["--server_name", "x"], "server_name", "x"),
        (["-m", "8222"], "http_port", 8222),
        (["--http_port", "-1"], "http_port", -1),
        (["-ms", "8443"], "https_port", 8443),
        (["-P", "f.pid"], "pid_file", "f.pid"),
        (["-l", "f.log"], "log_file", "f.log"),
        (["--log_size_limit", "10"], "log_size_limit_bytes", 10),
        (["-T=false"], "logtime", False),
        (["--logtime_utc"], "logtime_utc", True),
        (["-D"], "debug", True),
        (["-V"], "trace", True),
        (["-DV"], "debug", True),
        (["-DV"], "trace", True),
        (["-VV"], "trace_verbose", True),
        (["-DVV"], "trace_verbose", True),
        (["--user", "u"], "username", "u"),
        (["--pass", "p"], "password", "p"),
        (["--auth", "t"], "token", "t"),
        (["--ports_file_dir", "d"], "ports_file_dir", "d"),
        (["--client_advertise", "h:1"], "client_advertise", "h:1"),
        (["-p", "1", "-p", "2"], "port", 2),
    ],
)
def test_each_flag_sets_its_option(words: list[str], name: str, value: object) -> None:
    assert getattr(options(*words), name) == value


@pytest.mark.parametrize("word", ["-js", "--js", "--jetstream", "-js=true"])
def test_jetstream_is_turned_on_by_a_flag(word: str) -> None:
    assert options(word).jetstream.enabled


def test_flags_stand_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("port: 5000\nserver_name: from_file\ndebug: true\njetstream { store_dir: x }\n")

    result = options("-c", str(file), "-p", "6000", "-D=false", "-sd", "y")

    assert (result.port, result.server_name, result.debug) == (6000, "from_file", False)
    assert result.jetstream.store_dir == "y"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bogus"], "flag provided but not defined: -bogus"),
        (["-p"], "flag needs an argument: -p"),
        (["-p", "abc"], 'invalid value "abc" for flag -p: parse error'),
        (["-js=maybe"], 'invalid boolean value "maybe" for -js: parse error'),
        (["---p", "1"], "bad flag syntax: ---p"),
    ],
)
def test_words_that_are_no_flags_are_usage_errors(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_command_line(words)

    assert str(caught.value) == message


def test_a_word_that_is_no_flag_at_all_is_not_a_command() -> None:
    with pytest.raises(OptionsError, match='unrecognized command: "extra"'):
        parse_command_line(["-p", "1", "extra"])


@pytest.mark.parametrize("words", [["-h"], ["--help"], ["help"]])
def test_help_may_be_asked_for(words: list[str]) -> None:
    assert parse_command_line(words).shows_help


@pytest.mark.parametrize("words", [["-v"], ["--version"], ["version"]])
def test_the_version_may_be_asked_for(words: list[str]) -> None:
    assert parse_command_line(words).shows_version


@pytest.mark.parametrize(
    "words",
    [
        ["--cluster", "nats://0.0.0.0:6222"],
        ["--routes", "nats://x:6222"],
        ["--cluster_name", "c"],
        ["--connect_retries", "3"],
        ["--no_advertise"],
    ],
)
def test_clustering_flags_are_refused(words: list[str]) -> None:
    with pytest.raises(OptionsError, match="clustering is not supported"):
        options(*words)


def test_tls_flags_need_a_certificate_and_a_key() -> None:
    with pytest.raises(OptionsError, match="TLS Server certificate must be present"):
        options("--tls")
    with pytest.raises(OptionsError, match="TLS Server private key must be present"):
        options("--tls", "--tlscert", "c.pem")
    tls = options("--tlscert", "c.pem", "--tlskey", "k.pem", "--tlsverify", "--tlscacert", "ca.pem").tls
    assert tls is not None
    assert (tls.cert_file, tls.key_file, tls.ca_file, tls.verify) == ("c.pem", "k.pem", "ca.pem", True)


def test_tls_may_be_turned_off_over_the_file() -> None:
    target = Options()
    apply_flags(parse_command_line(["--tlscert", "c", "--tlskey", "k"]), target)

    apply_flags(parse_command_line(["--tls=false"]), target)

    assert target.tls is None


def test_checking_the_configuration_needs_a_file() -> None:
    with pytest.raises(OptionsError, match=r"must specify \[-c, --config\] option"):
        options("-t")
