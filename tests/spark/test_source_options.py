"""Options: read without regard to case, and every mistake named with what would be right."""

from __future__ import annotations

import pickle

import pytest

from jetspark.client.errors import BadOptionError
from jetspark.errors import JetsparkError
from jetspark.spark.options import CONNECTION_OPTIONS, Option, Options
from jetspark.spark.sink_options import sink_options
from jetspark.spark.source import JetStreamDataSource
from jetspark.spark.source_options import SOURCE_OPTIONS, check_batch, check_streaming, source_options

NEEDED = {"servers": "nats://127.0.0.1:4222", "stream": "ORDERS"}


def read(**given: str) -> Options:
    return source_options({**NEEDED, **{name.replace("__", "."): value for name, value in given.items()}})


def test_names_are_compared_without_case_and_may_carry_a_prefix() -> None:
    options = source_options(
        {"SERVERS": "nats://a, nats://b", "Stream": "A,B", "nats.token": "t", "MAXOFFSETSPERTRIGGER": "5"}
    )

    assert options["servers"] == ("nats://a", "nats://b")
    assert options["stream"] == ("A", "B")
    assert options["token"] == "t"
    assert options["maxOffsetsPerTrigger"] == 5


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("maxTriggerDelay", "15m", 900.0),
        ("maxTriggerDelay", "60000", 60.0),
        ("maxBytesPerTrigger", "64m", 64 << 20),
        ("requestTimeoutMs", "2500", 2.5),
        ("startingTimestamp", "1700000000123", 1_700_000_000_123_000_000),
        ("startingTimestamp", "2026-11-16T08:00:00.5Z", 1_794_816_000_500_000_000),
        ("startingTimestamp", "2026-11-16T09:00:00+01:00", 1_794_816_000_000_000_000),
        ("startingOffsets", '{"ORDERS": 7}', {"ORDERS": 7}),
        ("startingOffsets", '{"ORDERS": -2}', {"ORDERS": "earliest"}),
        ("startingOffsets", "EARLIEST", "earliest"),
        ("failOnDataLoss", "False", False),
        ("fetchOffset.numRetries", "9", 9),
    ],
)
def test_an_option_becomes_a_value(name: str, text: str, value: object) -> None:
    options = source_options({**NEEDED, name: text})

    assert options["numRetries" if name.startswith("fetch") else name] == value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffset": "earliest"}, ["startingOffset", "did you mean startingOffsets", "earliest, latest"]),
        ({"maxOffsetPerTrigger": "5"}, ["did you mean maxOffsetsPerTrigger", "a whole number, 1 or more"]),
        ({"bananas": "5"}, ["unknown option bananas", "known are", "maxOffsetsPerTrigger"]),
        ({"maxOffsetsPerTrigger": "0"}, ["maxOffsetsPerTrigger", "a whole number, 1 or more", "'0'"]),
        ({"failOnDataLoss": "yes"}, ["failOnDataLoss", "true or false", "'yes'"]),
        ({"maxTriggerDelay": "soon"}, ["maxTriggerDelay", "15m", "'soon'"]),
        ({"maxBytesPerTrigger": "-1"}, ["maxBytesPerTrigger", "64m"]),
        ({"startingTimestamp": "2026-11-16T08:00:00"}, ["startingTimestamp", "a time with its zone"]),
        ({"startingOffsets": '{"ORDERS": "first"}'}, ["startingOffsets", "JSON with a sequence"]),
        ({"startingOffsets": '{"OTHER": 5}'}, ["startingOffsets", "OTHER", "option stream does not"]),
        ({"startingOffsets": '{"ORDERS": 5}', "stream": "ORDERS,B"}, ["startingOffsets", "no position for B"]),
        ({"startingOffsets": "latest", "startingTimestamp": "5"}, ["startingOffsets", "startingTimestamp", "not both"]),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, ["minOffsetsPerTrigger", "maxOffsetsPerTrigger"]),
        ({"subjects": "a..b"}, ["subjects", "a..b"]),
        ({"stream": "a.b"}, ["stream", "a.b"]),
        ({"readMode": "fast"}, ["readMode", "auto, consumer, direct"]),
        ({"servers": ""}, ["servers"]),
        ({"user": "a", "token": "b"}, ["one kind of credentials"]),
        ({"domain": "a", "apiPrefix": "b"}, ["domain", "apiPrefix"]),
        ({"workQueue": "true"}, ["workQueue", "durable"]),
        ({"servers": "nats://x", "url": "nats://y"}, ["servers", "given twice"]),
        ({"servers": "http://x:1"}, ["option servers", "not a server address", "http://x:1"]),
        ({"servers": "nats://x:abc"}, ["option servers", "nats://x:abc"]),
        ({"stream": "ORD*"}, ["option stream", "ORD*", "option subjects"]),
        ({"durable": "a.b"}, ["option durable", "a.b"]),
        ({"connectTimeoutMs": "0"}, ["option connectTimeoutMs takes milliseconds above 0", "'0'"]),
        ({"requestTimeoutMs": "0s"}, ["option requestTimeoutMs takes milliseconds above 0"]),
        ({"apiPrefix": "a b"}, ["option apiPrefix", "a b"]),
        ({"domain": "*"}, ["option domain", "*"]),
        ({"inboxPrefix": ">"}, ["option inboxPrefix", ">"]),
        ({"password": "x"}, ["option password needs option user"]),
        ({"nkeySeedFile": "/x", "nkeySecret": "y"}, ["nkeySeedFile", "nkeySecret", "not both"]),
        ({"tls.keyFile": "/x"}, ["option tls.keyFile needs option tls.certFile"]),
        ({"tls": "false", "tls.caFile": "/x"}, ["option tls is false"]),
        ({"workQueue": "true", "durable": "d", "readMode": "consumer"}, ["workQueue", "direct gets", "readMode"]),
        ({"startingOffsets": '{"ORDERS": 9}', "endingOffsets": '{"ORDERS": 5}'},
         ["option endingOffsets", "5 of stream ORDERS comes before 9", "option startingOffsets"]),
        ({"startingTimestamp": "9", "endingTimestamp": "5"}, ["endingTimestamp is before option startingTimestamp"]),
        ({"maxOffsetsPerTrigger": "9" * 5000}, ["maxOffsetsPerTrigger", "9..."]),
    ],
)  # fmt: skip
def test_a_bad_option_is_named_with_what_it_takes(given: dict[str, str], words: list[str]) -> None:
    with pytest.raises(JetsparkError) as caught:
        source_options({**NEEDED, **given})

    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("spelled", "own"),
    [
        ("subscribe", "stream"),
        ("subscribePattern", "subjects"),
        ("assign", "stream"),
        ("kafka.bootstrap.servers", "servers"),
        ("startingOffsetsByTimestamp", "startingTimestamp"),
        ("endingOffsetsByTimestamp", "endingTimestamp"),
        ("kafka.group.id", "durable"),
        ("topic", "stream"),
        ("nats.host", "servers"),
        ("nats.pull.subscription.stream.name", "stream"),
    ],
)
def test_a_name_of_another_connector_is_told_by_its_name_here(spelled: str, own: str) -> None:
    with pytest.raises(BadOptionError, match=f"unknown option {spelled}: here it is {own}, which takes "):
        source_options({**NEEDED, spelled: "x"})


def test_an_empty_range_is_none_that_ends_before_it_begins() -> None:
    assert read(startingOffsets='{"ORDERS": 9}', endingOffsets='{"ORDERS": 8}')["endingOffsets"] == {"ORDERS": 8}
    assert read(startingTimestamp="9", endingTimestamp="9")["endingTimestamp"] == 9_000_000


def test_subjects_that_another_one_covers_are_left_out() -> None:
    assert read(subjects="a.b, a.*, c, a.*.d, *.b, c.>, c")["subjects"] == ("a.*", "c", "a.*.d", "*.b", "c.>")


@pytest.mark.parametrize(
    ("given", "streams"),
    [
        ({"path": "ORDERS"}, ("ORDERS",)),
        ({"path": "ORDERS, RETURNS"}, ("ORDERS", "RETURNS")),
        ({"paths": '["ORDERS", "RETURNS"]'}, ("ORDERS", "RETURNS")),
        ({"path": "ORDERS", "streams": "ORDERS"}, ("ORDERS",)),
        # Where Spark keeps a table is no stream.
        ({"path": "file:/warehouse/t", "provider": "jetstream", "stream": "ORDERS"}, ("ORDERS",)),
    ],
)
def test_what_is_loaded_by_name_is_the_stream(given: dict[str, str], streams: tuple[str, ...]) -> None:
    options = source_options({"servers": "nats://h", **given})

    assert options["stream"] == streams
    assert options.is_given("stream")


def test_two_different_streams_in_load_and_in_the_options_are_refused() -> None:
    with pytest.raises(BadOptionError, match="load names RETURNS and option stream ORDERS: give one of them"):
        read(path="RETURNS")
    with pytest.raises(BadOptionError, match=r"option stream.*orders.parquet"):
        source_options({"servers": "nats://h", "path": "orders.parquet"})
    with pytest.raises(BadOptionError, match=r"option paths is Spark's own.*use option stream"):
        source_options({"servers": "nats://h", "paths": "ORDERS"})
    with pytest.raises(BadOptionError, match="save or start names RETURNS and option stream ORDERS"):
        sink_options({**NEEDED, "path": "RETURNS"})
    assert sink_options({"servers": "nats://h", "path": "ORDERS"})["stream"] == "ORDERS"


@pytest.mark.parametrize("missing", ["servers", "stream"])
def test_a_missing_option_is_named(missing: str) -> None:
    given = {name: value for name, value in NEEDED.items() if name != missing}

    with pytest.raises(BadOptionError, match=f"option {missing} is missing"):
        source_options(given)


def test_what_only_a_batch_or_only_a_stream_may_say_is_refused_for_the_other() -> None:
    with pytest.raises(BadOptionError, match=r"endingOffsets is for batches.*use read "):
        check_streaming(read(endingOffsets="latest"))
    with pytest.raises(BadOptionError, match=r"maxOffsetsPerTrigger is for streaming.*readStream"):
        check_batch(read(maxOffsetsPerTrigger="5"))
    with pytest.raises(BadOptionError, match="startingOffsets cannot be latest"):
        check_batch(read(startingOffsets="latest"))


# What a secret cannot be given without.
BELONGING = {"password": {"user": "me"}, "tls.keyPassword": {"tls.certFile": "/certificate.pem"}}


def secret_options() -> list[Option]:
    return [option for option in CONNECTION_OPTIONS if option.is_secret]


@pytest.mark.parametrize("option", secret_options(), ids=lambda option: option.name)
def test_a_secret_is_in_no_repr_and_has_a_name_spark_hides(option: Option) -> None:
    # What Spark hides by default: spark.redaction.regex.
    assert any(word in option.name.lower() for word in ("secret", "password", "token"))
    given = {**NEEDED, **BELONGING.get(option.name, {}), option.name: "hunter2"}
    options = source_options(given)
    source = JetStreamDataSource(given)

    assert "hunter2" not in repr(options)
    assert "hunter2" not in repr(source)
    assert pickle.loads(pickle.dumps(options))[option.name] == "hunter2"


def test_credentials_in_a_url_are_refused_without_repeating_them() -> None:
    with pytest.raises(BadOptionError, match="user and password") as caught:
        read(servers="nats://me:hunter2@127.0.0.1:4222")

    assert "hunter2" not in str(caught.value)


SEED = "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY"


@pytest.mark.parametrize(
    ("name", "secret"),
    [("nkey", SEED), ("nkeySeedFile", f" {SEED} "), ("creds", "-----BEGIN NATS USER JWT-----\neyJ0"), ("creds", SEED)],
)
def test_a_secret_in_place_of_a_file_is_refused_without_repeating_it(name: str, secret: str) -> None:
    with pytest.raises(BadOptionError, match=r"takes a file path: this is the secret itself") as caught:
        source_options({**NEEDED, name: secret})

    assert "SUAM" not in str(caught.value)
    assert "eyJ0" not in str(caught.value)


def test_every_option_says_what_it_is_for() -> None:
    for option in SOURCE_OPTIONS:
        assert option.doc.endswith("."), option.name
    names = [text.lower() for option in SOURCE_OPTIONS for text in (option.name, *option.also)]
    assert len(set(names)) == len(names)
