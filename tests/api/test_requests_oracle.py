"""Request bodies: what our parsers refuse is what nats-server refuses, and the whole answer has its shape."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.api.nats_oracle import Oracle

from jetspark.api import requests, responses
from jetspark.api.error_codes import ApiError
from jetspark.api.pull_request import parse_pull_request

pytestmark = pytest.mark.oracle

PAGED = ["", "{}", "null", "[]", "nope", " ", '{"offset":"x"}', '{"x":1}', '{"offset":1.5}', '{"offset":-1}', "{"]
NAMES = [*PAGED, '{"subject":1}', '{"subject":"zz"}', '{"subject":"a..b"}', '{"offset":1} {"offset":"x"}']
EMPTY = ["", "{}", " {} ", '{"a":1}', "x", "null", "[]", "{ }"]
# Of each row: the request, the response type, the parser, and the bodies to try.
Parser = Callable[[bytes], object]
TABLE: list[tuple[str, str, Parser, list[str]]] = [
    ("STREAM.NAMES", responses.STREAM_NAMES, requests.parse_stream_names_request, NAMES),
    ("STREAM.LIST", responses.STREAM_LIST, requests.parse_stream_list_request, NAMES),
    ("CONSUMER.NAMES.S", responses.CONSUMER_NAMES, requests.parse_consumers_request, [*PAGED, '{"subject":"a"}']),
    ("CONSUMER.LIST.S", responses.CONSUMER_LIST, requests.parse_consumers_request, [*PAGED, '{"subject":"a"}']),
    (
        "STREAM.INFO.S",
        responses.STREAM_INFO,
        requests.parse_stream_info_request,
        [*PAGED, '{"subjects_filter":1}', '{"deleted_details":1}', '{"deleted_details":true,"subjects_filter":">"}'],
    ),
    (
        "STREAM.PURGE.S",
        responses.STREAM_PURGE,
        requests.parse_purge_request,
        [
            *("nope", "null", "[]", "{", '{"x":1}', '{"seq":-1}', '{"seq":1,"keep":1}', '{"filter":1}'),
            *('{"filter":"zz"}', '{"seq":1}', '{"keep":9}', '{"seq":0,"keep":9}', '{"filter":"a b"}'),
        ],
    ),
    (
        "STREAM.MSG.GET.S",
        responses.STREAM_MSG_GET,
        requests.parse_msg_get_request,
        [
            *("", "{}", "nope", "[]", "null", '{"seq":1}', '{"seq":"x"}', '{"x":1}', '{"no_hdr":true}'),
            *('{"seq":1,"last_by_subj":"s.a"}', '{"last_by_subj":"s.a","next_by_subj":"s.a"}', '{"up_to_seq":1}'),
            *('{"next_by_subj":"s.>"}', '{"seq":1,"next_by_subj":"s.>"}', '{"batch":1,"seq":1}', '{"batch":0,"seq":1}'),
            *('{"max_bytes":5,"seq":1}', '{"multi_last":["s.a"]}', '{"start_time":"x"}', '{"seq":1,"up_to_seq":1}'),
            *('{"start_time":"2020-01-01T00:00:00Z"}', '{"start_time":"2020-01-01T00:00:00Z","seq":1}'),
            *('{"start_time":"2020-01-01T00:00:00Z","last_by_subj":"s.a"}', '{"last_by_subj":"s.*"}'),
            *('{"start_time":"2020-01-01T00:00:00Z","next_by_subj":"s.a"}', '{"seq":1} {"seq":1}'),
        ],
    ),
    (
        "STREAM.MSG.DELETE.S",
        responses.STREAM_MSG_DELETE,
        requests.parse_msg_delete_request,
        ["", "{}", "nope", "[]", '{"seq":"x"}', '{"x":1}', '{"seq":1,"no_erase":1}', '{"seq":-1}'],
    ),
    (
        "STREAM.SNAPSHOT.S",
        responses.STREAM_SNAPSHOT,
        requests.parse_snapshot_request,
        [
            *("", "{}", "nope", "[]", '{"deliver_subject":""}', '{"deliver_subject":"a b"}', '{"x":1}'),
            *('{"deliver_subject":"a.*"}', '{"deliver_subject":1}', '{"deliver_subject":"d","chunk_size":"x"}'),
        ],
    ),
    (
        "STREAM.RESTORE.Z",
        responses.STREAM_RESTORE,
        lambda body: requests.parse_restore_request(body, "Z"),
        [
            *("", "{}", "nope", "[]", '{"x":1}', '{"config":{"name":1}}', '{"config":{"name":"Z","x":1}}'),
            *('{"config":{"name":"Z"},"state":{"messages":"x"}}', '{"config":{"name":"Y"},"state":{}}'),
            *('{"config":{"name":"Z"},"state":{"lost":{"msgs":[-1]}}}', '{"config":{},"state":{"subjects":{"a":"b"}}}'),
            '{"config":{"name":"Z"},"state":{"first_ts":"x"}}',
        ],
    ),
    (
        "CONSUMER.PAUSE.S.c",
        responses.CONSUMER_PAUSE,
        requests.parse_pause_request,
        [
            *("", "{}", "nope", "null", "[]", '{"pause_until":"x"}', '{"pause_until":1}', '{"x":1}'),
            *('{"pause_until":null}', '{"pause_until":"2020-01-01T00:00:00Z"}'),
        ],
    ),
    (
        "CONSUMER.UNPIN.S.p",
        responses.CONSUMER_UNPIN,
        requests.parse_unpin_request,
        [
            *("", "{}", "nope", "null", "[]", " ", '{"group":""}', '{"group":1}', '{"group":"a b"}', '{"group":"A"} x'),
            *('{"group":"A"}', '{"group":"A","x":1}', '{"group":"A"', '{"group":"12345678901234567"}'),
        ],
    ),
    (
        "CONSUMER.RESET.S.c",
        responses.CONSUMER_RESET,
        requests.parse_reset_request,
        ["nope", '{"seq":"x"}', '{"seq":-1}', "[]", "null", " ", "5", "{}", '{"x":1}', '{"seq":1.0}', '{"seq":1}x'],
    ),
    ("STREAM.DELETE.NONE", responses.STREAM_DELETE, requests.require_empty_body, EMPTY),
    ("CONSUMER.DELETE.S.none", responses.CONSUMER_DELETE, requests.require_empty_body, EMPTY),
    ("CONSUMER.INFO.S.none", responses.CONSUMER_INFO, requests.require_empty_body, EMPTY),
]
ROWS = [(verb, kind, parser, body) for verb, kind, parser, bodies in TABLE for body in bodies]
# Errors that are about what exists, which the parsers know nothing of.
ABOUT_STATE = (10059, 10014, 10037, 10043, 10057)


@pytest.fixture(autouse=True, scope="module")
def _stream(oracle: Oracle) -> Iterator[None]:
    oracle.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": True})
    oracle.request("s.a", b"hello")
    oracle.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {"durable_name": "c"}})
    pinned = {"durable_name": "p", "priority_policy": "pinned_client", "priority_groups": ["A"]}
    oracle.api("CONSUMER.CREATE.S.p", {"stream_name": "S", "config": pinned})
    yield
    oracle.remove_streams()


@pytest.mark.parametrize(("verb", "kind", "parser", "body"), ROWS)
def test_a_body_is_accepted_or_refused_as_by_nats_server(
    oracle: Oracle, verb: str, kind: str, parser: Parser, body: str
) -> None:
    theirs = oracle.api(verb, body)

    try:
        parser(body.encode())
    except ApiError as error:
        ours: dict[str, Any] | None = responses.error(kind, error)
    else:
        ours = None

    if ours is None:
        assert "error" not in theirs or theirs["error"]["err_code"] in ABOUT_STATE
    else:
        assert ours == theirs
        assert list(ours) == list(theirs)


DIRECT = [
    *("", "nope", "[]", "{}", "null", '{"x":1}', '{"seq":"x"}', '{"no_hdr":true}', '{"seq":1,"last_by_subj":"s.a"}'),
    *('{"last_by_subj":"s.a","next_by_subj":"s.a"}', '{"last_by_subj":"s.a","batch":2}', '{"seq":1,"x":1}'),
    *('{"last_by_subj":"s.a","multi_last":["s.a"]}', '{"next_by_subj":"s.a","multi_last":["s.a"]}'),
    *('{"start_time":"2020-01-01T00:00:00Z","seq":1}', '{"start_time":"2020-01-01T00:00:00Z","last_by_subj":"s.a"}'),
    '{"multi_last":["s.a"],"up_to_seq":1,"up_to_time":"2020-01-01T00:00:00Z"}',
]


def our_status(parse: Callable[[], object]) -> str | None:
    try:
        parse()
    except requests.DirectGetError as error:
        return f"NATS/1.0 {error}"
    return None


@pytest.mark.parametrize("body", DIRECT)
def test_a_direct_get_is_accepted_or_refused_as_by_nats_server(oracle: Oracle, body: str) -> None:
    headers, _ = oracle.request("$JS.API.DIRECT.GET.S", body)
    status = headers.split(b"\r\n")[0].decode()
    ours = our_status(lambda: requests.parse_direct_get_request(body.encode()))

    assert ours == (status if status.startswith("NATS/1.0 408") else None)


@pytest.mark.parametrize(
    "body",
    [
        *("", "{}", "nope", '{"no_hdr":true}', '{"x":1}', '{"seq":1}', '{"batch":1}', '{"last_by_subj":"s.a"}'),
        *('{"next_by_subj":"s.a"}', '{"multi_last":["s.a"]}', '{"up_to_seq":1}', '{"max_bytes":1}', "[]", "null"),
        *('{"start_time":"2020-01-01T00:00:00Z"}', '{"up_to_time":"2020-01-01T00:00:00Z"}'),
    ],
)
def test_a_direct_get_by_subject_is_accepted_or_refused_as_by_nats_server(oracle: Oracle, body: str) -> None:
    headers, _ = oracle.request("$JS.API.DIRECT.GET.S.s.a", body)
    status = headers.split(b"\r\n")[0].decode()
    ours = our_status(lambda: requests.parse_direct_get_last_request(body.encode(), "s.a"))

    assert ours == (status if status.startswith("NATS/1.0 408") else None)


@pytest.mark.parametrize(
    "body",
    [
        *('{"batch":"x"}', '{"batch":1.0}', '{"batch":1e1}', '{"expires":1e9}', '{"no_wait":1}', '{"group":1}', "{"),
        *('{"batch":1,}', "{nope}", '{"batch":99999999999999999999}', '{"idle_heartbeat":1}', '{"priority":"1"}'),
        *('{"idle_heartbeat":6,"expires":10}', '{"batch":1} x', '{"batch":[]}', '{"id":5}', '{"min_pending":1.5}'),
        *('{"BATCH":"x"}', '{"batch":1,"batch":"x"}', '{"priority":11}', '{"priority":-1}'),
    ],
)
def test_a_bad_pull_request_is_refused_in_nats_servers_words(oracle: Oracle, body: str) -> None:
    headers, _ = oracle.request("$JS.API.CONSUMER.MSG.NEXT.S.c", body)
    status = headers.split(b"\r\n")[0].decode()

    ours = parse_pull_request(body.encode())

    # The range of priorities is the consumer's to check.
    expected = "Priority must be between 0 and 9" if "priority" in body and not isinstance(ours, str) else ours
    assert status == f"NATS/1.0 400 Bad Request - {expected}"
