"""Request bodies as values; what is refused is in the tests against nats-server."""

import pytest

from jetspark.api import requests
from jetspark.api.error_codes import ApiError
from jetspark.api.timestamps import ZERO_TIME_NS, parse_time


def test_a_page_starts_at_zero_or_later() -> None:
    assert requests.parse_stream_names_request(b'{"offset":-3,"subject":"a"}') == requests.PagedRequest(subject="a")
    assert requests.parse_consumers_request(b'{"offset":7}').offset == 7


def test_a_server_told_not_to_be_strict_takes_unknown_fields() -> None:
    assert requests.parse_stream_list_request(b'{"offset":1,"x":2}', strict=False).offset == 1
    with pytest.raises(ApiError):
        requests.parse_stream_list_request(b'{"offset":1,"x":2}')


def test_every_request_gives_what_its_body_says() -> None:
    assert requests.parse_stream_info_request(b'{"subjects_filter":">"}').subjects_filter == ">"
    assert requests.parse_purge_request(b'{"seq":5,"filter":"a"}') == requests.PurgeRequest(seq=5, filter="a")
    assert requests.parse_purge_request(b"") == requests.PurgeRequest()
    assert requests.parse_msg_get_request(b'{"seq":5,"next_by_subj":"a"}').next_by_subj == "a"
    assert requests.parse_msg_delete_request(b'{"seq":5,"no_erase":true}').no_erase
    assert requests.parse_unpin_request(b'{"group":"A"}').group == "A"
    assert requests.parse_reset_request(b"").seq == 0
    assert requests.parse_reset_request(b'{"seq":9}').seq == 9


def test_a_pause_is_kept_in_utc_and_its_absence_resumes() -> None:
    request = requests.parse_pause_request(b'{"pause_until":"2030-01-01T00:00:00+02:00"}')

    assert str(request.pause_until) == "2029-12-31T22:00:00Z"
    assert requests.parse_pause_request(b"").pause_until.unix_ns == ZERO_TIME_NS


def test_a_direct_get_chooses_in_many_ways() -> None:
    batch = requests.parse_direct_get_request(b'{"seq":1,"batch":10,"next_by_subj":"a.*","max_bytes":99}')
    assert (batch.seq, batch.batch, batch.next_by_subj, batch.max_bytes) == (1, 10, "a.*", 99)
    last = requests.parse_direct_get_last_request(b'{"no_hdr":true}', "a.b")
    assert (last.last_by_subj, last.no_hdr) == ("a.b", True)
    multi = requests.parse_direct_get_request(b'{"multi_last":["a","b"],"up_to_time":"2026-01-01T00:00:00Z"}')
    assert multi.up_to_time == parse_time("2026-01-01T00:00:00Z")


def test_snapshot_sizes_stay_within_bounds() -> None:
    plain = requests.parse_snapshot_request(b'{"deliver_subject":"d"}')
    small = requests.parse_snapshot_request(b'{"deliver_subject":"d","chunk_size":1,"window_size":1}')
    large = requests.parse_snapshot_request(b'{"deliver_subject":"d","chunk_size":99999999,"window_size":99999999}')

    assert (plain.chunk_bytes, plain.window_bytes) == (128 * 1024, 8 * 1024 * 1024)
    assert (small.chunk_bytes, small.window_bytes) == (1024, 1024)
    assert (large.chunk_bytes, large.window_bytes) == (1024 * 1024, 32 * 1024 * 1024)


def test_a_restore_takes_its_name_from_the_subject() -> None:
    request = requests.parse_restore_request(b'{"config":{"subjects":["a"]},"state":{"messages":3}}', "Z")

    assert (request.config.name, request.state.messages) == ("Z", 3)


@pytest.mark.parametrize(
    ("header", "is_met"), [(None, True), (b"", True), (b"0", True), (b"5", True), (b"6", False), (b"x", False)]
)
def test_a_required_level_is_met_up_to_our_own(header: bytes | None, is_met: bool) -> None:
    assert requests.api_level_is_met(header) is is_met
