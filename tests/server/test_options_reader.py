"""What each key of the configuration file sets, and how mistakes are reported."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jetspark.server.options import MINUTE_NS, SECOND_NS, Options, OptionsError, UserOptions, validate
from jetspark.server.options_reader import ConfigFileError, read_config_file
from jetspark.testing.processes import nats_server_command

Read = Callable[[str], Options]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_text(text: str) -> Options:
        file = tmp_path / "test.conf"
        file.write_text(text)
        return read_config_file(str(file))[0]

    return read_text


def complaints(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "test.conf"
    file.write_text(text)
    with pytest.raises(ConfigFileError) as caught:
        read_config_file(str(file))
    return [line.removeprefix(f"{tmp_path}/") for line in str(caught.value).splitlines()]


def test_the_top_level_settings(read: Read) -> None:
    options = read("""
        listen: "127.0.0.1:5222"
        server_name: alpha
        server_tags: [one, two]
        http: localhost:8222
        max_payload: 2MB
        max_pending: 10MB
        max_connections: 10
        max_subs: 5
        write_deadline: "3s"
        ping_interval: "1m30s"
        ping_max: 4
        lame_duck_duration: "45s"
        lame_duck_grace_period: "1s"
        debug: true, trace: on, logtime: false
        logfile: server.log
        logfile_size_limit: 1MB
        pid_file: server.pid
    """)

    assert (options.host, options.port) == ("127.0.0.1", 5222)
    assert (options.server_name, options.server_tags) == ("alpha", ["one", "two"])
    assert (options.http_host, options.http_port) == ("localhost", 8222)
    assert (options.max_payload_bytes, options.max_pending_bytes) == (2 << 20, 10 << 20)
    assert (options.max_connections, options.max_subscriptions) == (10, 5)
    assert options.write_deadline_ns == 3 * SECOND_NS
    assert (options.ping_interval_ns, options.ping_max) == (90 * SECOND_NS, 4)
    assert (options.lame_duck_duration_ns, options.lame_duck_grace_ns) == (45 * SECOND_NS, SECOND_NS)
    assert (options.debug, options.trace, options.logtime) == (True, True, False)
    assert (options.log_file, options.log_size_limit_bytes, options.pid_file) == ("server.log", 1 << 20, "server.pid")


def test_zero_stands_for_the_default(read: Read) -> None:
    options = read("port: 0\nmax_payload: 0\nping_max: 0\nmax_connections: 0\n")

    assert (options.port, options.max_payload_bytes, options.ping_max) == (4222, 1 << 20, 2)
    assert options.max_connections == 0, "where zero means that nobody may connect"


def test_the_jetstream_block(read: Read) -> None:
    jetstream = read("""
        jetstream {
          store_dir: "/data", max_mem: 1GB, max_file: "10G", domain: hub, strict: false
          sync_interval: "30s"
          limits { max_ack_pending: 7, duplicate_window: "1m", default_max_consumers: 3, batch { max_msgs: 5 } }
        }
    """).jetstream

    assert jetstream.enabled
    assert (jetstream.store_dir, jetstream.domain, jetstream.strict) == ("/data", "hub", False)
    assert (jetstream.max_memory_bytes, jetstream.max_storage_bytes) == (1 << 30, 10 << 30)
    assert (jetstream.sync_always, jetstream.sync_interval_ns) == (False, 30 * SECOND_NS)
    assert (jetstream.max_ack_pending, jetstream.duplicate_window_ns) == (7, MINUTE_NS)
    assert (jetstream.default_max_consumers, jetstream.batch_msgs_max) == (3, 5)


@pytest.mark.parametrize(("text", "enabled"), [("true", True), ("enabled", True), ("disabled", False), ("{}", True)])
def test_jetstream_may_be_a_word(read: Read, text: str, enabled: bool) -> None:
    assert read(f"jetstream: {text}\n").jetstream.enabled is enabled


def test_acknowledgements_wait_for_the_disk_unless_an_interval_is_named(read: Read) -> None:
    assert read("jetstream: true").jetstream.sync_always
    assert read("jetstream { sync_interval: always }").jetstream.sync_always
    assert not read('jetstream { sync_interval: "2m" }').jetstream.sync_always


def test_users_have_permissions_and_defaults_fill_the_gaps(read: Read) -> None:
    options = read("""
        authorization {
          default_permissions { publish: "open.>" }
          users = [
            {user: a, password: pa, permissions: {publish: ["x", "y.*"], subscribe: {allow: "_INBOX.>", deny: "z q"}}}
            {username: b, pass: pb}
            {user: c, permissions: {allow_responses: {max: 5, expires: "10s"}}}
            {user: d, permissions: {allow_responses: true, publish: "p"}}
          ]
          timeout: 0.5
        }
    """)
    users = {user.name: user for user in options.users}
    allowed = {user.name: user.permissions for user in options.users if user.permissions is not None}

    assert users["a"].password == "pa"
    assert allowed["a"].publish_allow == ["x", "y.*"]
    assert allowed["a"].subscribe_allow == ["_INBOX.>"]
    assert allowed["a"].subscribe_deny == ["z q"]
    assert allowed["b"].publish_allow == ["open.>"]
    assert allowed["c"].publish_allow == []
    assert (allowed["c"].responses_max, allowed["c"].responses_expire_ns) == (5, 10 * SECOND_NS)
    assert allowed["d"].publish_allow == ["p"]
    assert (allowed["d"].responses_max, allowed["d"].responses_expire_ns) == (1, 2 * MINUTE_NS)
    assert options.auth_timeout_effective_s == 0.5


def test_accounts_have_users_and_jetstream_of_their_own(read: Read) -> None:
    options = read("""
        accounts {
          A { users: [{user: a, password: a}], jetstream: enabled }
          B { users: [{user: b, password: b}], jetstream { max_mem: 1k, max_streams: 2 }, limits { max_conn: 3 } }
          SYS { users: [{user: s, password: s}] }
        }
        system_account: SYS
        no_auth_user: a
    """)

    assert {user.name: user.account for user in options.users} == {"a": "A", "b": "B", "s": "SYS"}
    assert options.accounts["A"].jetstream is not None
    limits = options.accounts["B"].jetstream
    assert limits is not None
    assert limits.max_memory_bytes == 1000
    assert limits.max_streams == 2
    assert options.accounts["B"].max_connections == 3
    assert options.accounts["SYS"].jetstream is None
    assert (options.system_account, options.no_auth_user) == ("SYS", "a")


def test_a_bare_number_for_a_duration_is_seconds_and_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "test.conf"
    file.write_text("ping_interval: 3\n")

    options, warnings = read_config_file(str(file))

    assert options.ping_interval_ns == 3 * SECOND_NS
    assert warnings == [
        f'{file}:1:0: invalid use of field "ping_interval": ping_interval should be converted to a duration'
    ]


def test_every_unknown_key_is_reported_with_its_place(tmp_path: Path) -> None:
    text = "\n  bogus: 1\n port: 4222\nbogus2 { a: b }\njetstream { nope: 1, limits { foo: 1, batch {z: 1} } }\n"

    assert complaints(tmp_path, text) == [
        'test.conf:2:3: unknown field "bogus"',
        'test.conf:4:1: unknown field "bogus2"',
        'test.conf:5:13: unknown field "nope"',
        'test.conf:5:31: unknown field "foo"',
        'test.conf:5:46: unknown field "z"',
    ]


def test_a_key_that_is_only_a_variable_is_no_mistake(read: Read) -> None:
    assert read("my_port: 4333\nport: $my_port\n").port == 4333


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("port: abc", "test.conf:1:0: expected an integer, got a string"),
        ("debug: maybe", "test.conf:1:0: expected true or false, got a string"),
        ('server_name: "a b"', "test.conf:1:0: server name cannot contain spaces"),
        ("max_payload: 9999999999", "test.conf:1:0: max_payload value is too big"),
        ('lame_duck_duration: "3s"', "test.conf:1:0: invalid lame_duck_duration of 3s, minimum is 30 seconds"),
        (
            'write_deadline: "3x"',
            'test.conf:1:0: error parsing write_deadline: time: unknown unit "x" in duration "3x"',
        ),
        ('listen: "nohost"', 'test.conf:1:0: could not parse address string "nohost"'),
        ("tls { foo: 1 }", 'test.conf:1:6: error parsing tls config, unknown field "foo"'),
        ("authorization {permissions {foo: 1}}", 'test.conf:1:28: Unknown field "foo" parsing permissions'),
        ("accounts { A { users: [ {user: a}, {user: a} ] } }", 'test.conf:1:11: Duplicate user "a" detected'),
        ("authorization { user: a, token: b }", "test.conf:1:0: Cannot have a user/pass and token"),
        (
            "authorization { user: a, users: [{user: b}] }",
            "test.conf:1:0: Can not have a single user/pass and a users array",
        ),
        ("jetstream: maybe", "test.conf:1:0: Expected 'enabled' or 'disabled' for string value, got 'maybe'"),
        (
            "authorization { users: [{user: a, permissions: {publish: 'a..b'}}] }",
            'test.conf:1:48: subject "a..b" is not a valid subject',
        ),
        ("authorization { users: [{password: a}] }", "test.conf:1:24: User entry requires a user"),
    ],
)
def test_a_wrong_value_is_reported_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    assert complaints(tmp_path, text) == [complaint]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cluster { port: 6222 }", "cluster"),
        ("gateway { name: A }", "gateway"),
        ("leafnodes { port: 7422 }", "leafnodes"),
        ("leaf { port: 7422 }", "leafnodes"),
        ("mqtt { port: 1883 }", "mqtt"),
        ("operator: /x.jwt", "operator"),
        ("resolver: MEMORY", "resolver"),
        ("mappings { a: b }", "mappings"),
        ("accounts { A { exports: [{stream: a}] } }", "accounts.A.exports"),
        ("accounts { A { imports: [] } }", "accounts.A.imports"),
        ("jetstream { key: secret }", "jetstream.key"),
        ("authorization { auth_callout { issuer: A } }", "auth_callout"),
        ("no_header_support: true", "no_header_support"),
        ("max_sub_tokens: 8", "max_sub_tokens"),
        ("feature_flags { js_api_reply_v2: true }", "feature_flags.js_api_reply_v2"),
        ("accounts { A { limits { max_payload: 10 } } }", "accounts.A.limits.max_payload"),
        ("websocket { jwt_cookie: x }", "websocket.jwt_cookie"),
        ("tls { ocsp_peer: true }", "tls.ocsp_peer"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path: Path, text: str, name: str) -> None:
    assert any(f'"{name}" is not supported' in line for line in complaints(tmp_path, text))


def test_turning_off_what_is_not_there_is_allowed(read: Read) -> None:
    assert read("proxy_protocol: false\nno_header_support: false\nport: 5\n").port == 5


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(OptionsError, match=r"max_payload \(2048\) cannot be higher than max_pending \(1024\)"):
        validate(Options(max_payload_bytes=2048, max_pending_bytes=1024))
    with pytest.raises(OptionsError, match=r"lame duck grace period \(1m0s\) should be strictly lower"):
        validate(Options(lame_duck_grace_ns=MINUTE_NS, lame_duck_duration_ns=MINUTE_NS))
    with pytest.raises(OptionsError, match='no_auth_user: "x" present, but users/nkeys are not defined'):
        validate(Options(no_auth_user="x"))
    with pytest.raises(OptionsError, match='no_auth_user: "x" not present'):
        validate(Options(no_auth_user="x", users=[UserOptions(name="a")]))
    with pytest.raises(OptionsError, match="error resolving system account: account missing"):
        validate(Options(system_account="SYS"))
    with pytest.raises(OptionsError, match=r"can't specify both HTTP \(1\) and HTTPs \(2\) ports"):
        validate(Options(http_port=1, https_port=2))
    with pytest.raises(OptionsError, match="TLS cert and key required for HTTPS"):
        validate(Options(https_port=2))


@pytest.mark.oracle
@pytest.mark.parametrize(
    "text",
    [
        "bogus: 1\n",
        "\n  bogus: 1\n port: 4222\n\tbogus2 { a: b }\n",
        "jetstream { nope: 1 }\n",
        "authorization {\n  usr: x\n}\n",
        "accounts { A { users: [ {user: x, pwd: y} ] } }\n",
        '"bogus key": 1\n',
        "websocket { hst: x }\n",
    ],
)
def test_nats_server_reports_unknown_keys_at_the_same_places(tmp_path: Path, text: str) -> None:
    command = nats_server_command()
    if command is None:
        pytest.skip("nats-server is not installed")
    ours = complaints(tmp_path, text)

    theirs = subprocess.run(
        [*command, "-t", "-c", str(tmp_path / "test.conf")], capture_output=True, text=True, check=False
    ).stderr.replace(f"{tmp_path}/", "")

    assert sorted(re.findall(r"test\.conf:.*", theirs)) == sorted(ours)
