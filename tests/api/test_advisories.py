"""Events; those a single server sends freely are compared with nats-server's elsewhere."""

from jetspark.api import advisories
from jetspark.api.advisories import Stamp
from jetspark.api.stream_state import StreamState

STAMP = Stamp("ID", 0)


def test_an_event_begins_with_type_id_and_time_and_names_its_domain() -> None:
    subject, document = advisories.max_deliver(
        Stamp("ID", 0, "hub"), stream="S", consumer="c", stream_seq=1, deliveries=2
    )

    assert subject == "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.c"
    assert document == {
        "type": "io.nats.jetstream.advisory.v1.max_deliver",
        "id": "ID",
        "timestamp": "1970-01-01T00:00:00Z",
        "stream": "S",
        "consumer": "c",
        "stream_seq": 1,
        "deliveries": 2,
        "domain": "hub",
    }


def test_snapshot_and_restore_events_tell_start_and_end() -> None:
    client = {"id": 1}
    subject, document = advisories.snapshot_create(STAMP, stream="S", state=StreamState(), client=client)
    assert subject == "$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_CREATE.S"
    assert list(document)[3:] == ["stream", "state", "client"]

    _, document = advisories.snapshot_complete(STAMP, stream="S", start_ns=0, end_ns=1, client=client, error="no")
    assert list(document)[3:] == ["stream", "start", "end", "client", "error"]

    subject, document = advisories.restore_create(STAMP, stream="S", client=client)
    assert (subject, list(document)[3:]) == ("$JS.EVENT.ADVISORY.STREAM.RESTORE_CREATE.S", ["stream", "client"])

    _, document = advisories.restore_complete(STAMP, stream="S", start_ns=0, end_ns=1, received_bytes=7, client=client)
    assert list(document)[3:] == ["stream", "start", "end", "bytes", "client"]


def test_an_abandoned_batch_says_why() -> None:
    subject, document = advisories.batch_abandoned(STAMP, account="$G", stream="S", batch="u1", reason="timeout")

    assert subject == "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S"
    assert list(document)[3:] == ["account", "stream", "batch", "reason"]


def test_a_server_in_trouble_says_so() -> None:
    subject, document = advisories.out_of_storage(STAMP, server="n", server_id="N", stream="S")
    assert subject == "$JS.EVENT.ADVISORY.SERVER.OUT_OF_STORAGE"
    assert list(document)[3:] == ["server", "server_id", "stream", "cluster"]

    subject, document = advisories.api_limit_reached(STAMP, server="n", dropped=9)
    assert (subject, document["dropped"]) == ("$JS.EVENT.ADVISORY.API.LIMIT_REACHED", 9)
