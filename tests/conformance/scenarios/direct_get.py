"""Direct get: single, by subject, batches and many subjects at once."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario import Run, _body, scenario


def direct(run: Run, subject: str, body: Any = None, count: int = 1) -> None:
    """Ask for messages directly and record `count` answers."""
    run.record("direct", f"{subject} {body}")
    inbox = run.subscribe(run.client.new_inbox())
    run.client.publish(f"$JS.API.DIRECT.GET.{subject}", _body(body), reply=inbox.subject)
    inbox.take(count)
    inbox.close()


def filled(run: Run) -> None:
    run.stream("S", allow_direct=True)
    for subject in ("S.a", "S.b", "S.a", "S.c", "S.b"):
        run.fill(subject, 1)
    run.publish("S.a", "with headers", [("A", "1"), ("B", "2")])


@scenario()
def single_messages(run: Run) -> None:
    filled(run)
    direct(run, "S", {"seq": 2})
    direct(run, "S", {"last_by_subj": "S.a"})
    direct(run, "S", {"last_by_subj": "S.*"})
    direct(run, "S", {"next_by_subj": "S.b"})
    direct(run, "S", {"next_by_subj": "S.b", "seq": 3})
    direct(run, "S", {"seq": 6, "no_hdr": True})
    direct(run, "S", {"seq": 1, "unknown": 5})


@scenario()
def by_subject_in_the_request_subject(run: Run) -> None:
    filled(run)
    direct(run, "S.S.a")
    direct(run, "S.S.b")
    direct(run, "S.S.zzz")
    direct(run, "S.S.a", {"no_hdr": True})
    direct(run, "S.S.a", {"seq": 1})
    direct(run, "S.S.*")


@scenario()
def misses_and_bad_requests(run: Run) -> None:
    filled(run)
    for body in (None, {}, b"{", {"seq": 99}, {"seq": 0}, {"last_by_subj": "S.zzz"}, {"no_hdr": True}):
        direct(run, "S", body)
    direct(run, "S", {"seq": 1, "last_by_subj": "S.a"})
    direct(run, "S", {"last_by_subj": "S.a", "batch": 3})
    direct(run, "S", {"last_by_subj": "S.a", "next_by_subj": "S.a"})
    direct(run, "S", {"next_by_subj": "S.c", "seq": 5})
    direct(run, "S", {"batch": 5})
    direct(run, "S", {"multi_last": ["S.a"], "seq": 3, "last_by_subj": "S.a"})


@scenario()
def streams_without_direct_access_have_no_responder(run: Run) -> None:
    run.stream("S")
    run.fill("S.a", 1)
    for subject in ("S", "NOPE"):
        frame = run.client.request(f"$JS.API.DIRECT.GET.{subject}", b'{"seq":1}')
        run.record("answer", status=frame.status, headers=[list(pair) for pair in frame.headers])
    run.update_stream("S", allow_direct=True)
    direct(run, "S", {"seq": 1})


@scenario()
def batches_count_down(run: Run) -> None:
    filled(run)
    direct(run, "S", {"batch": 3, "seq": 1}, 4)
    direct(run, "S", {"batch": 10, "seq": 4}, 4)
    direct(run, "S", {"batch": 10, "next_by_subj": "S.a"}, 4)
    direct(run, "S", {"batch": 2, "next_by_subj": "S.*", "seq": 2}, 3)
    direct(run, "S", {"batch": 2, "next_by_subj": "S.zzz"})
    direct(run, "S", {"batch": 2, "seq": 50})
    direct(run, "S", {"batch": 2, "seq": 5, "no_hdr": True}, 3)


@scenario()
def batches_stop_at_max_bytes(run: Run) -> None:
    run.stream("S", allow_direct=True)
    run.fill("S.a", 6, "x" * 100)
    direct(run, "S", {"batch": 6, "seq": 1, "max_bytes": 250}, 4)
    direct(run, "S", {"batch": 6, "seq": 1, "max_bytes": 1}, 2)


@scenario()
def last_of_many_subjects(run: Run) -> None:
    filled(run)
    direct(run, "S", {"multi_last": ["S.a", "S.b"]}, 3)
    direct(run, "S", {"multi_last": ["S.>"]}, 4)
    direct(run, "S", {"multi_last": ["S.>"], "up_to_seq": 3}, 3)
    direct(run, "S", {"multi_last": ["S.>"], "batch": 2}, 3)
    direct(run, "S", {"multi_last": ["S.zzz"]})
    direct(run, "S", {"multi_last": ["S.>"], "up_to_time": "2020-01-01T00:00:00Z"})
    direct(run, "S", {"multi_last": []})


@scenario()
def too_many_subjects(run: Run) -> None:
    run.stream("S", allow_direct=True, storage="memory")
    inbox = run.subscribe(run.client.new_inbox())
    run.client.send(b"".join(b"PUB S.%d %s 1\r\nx\r\n" % (n, inbox.subject.encode()) for n in range(1025)))
    for _ in range(1025):
        run.client.next_message(inbox.sid)
    direct(run, "S", {"multi_last": ["S.>"]})


@scenario()
def start_time_selects(run: Run) -> None:
    filled(run)
    direct(run, "S", {"start_time": "2020-01-01T00:00:00Z", "batch": 2}, 3)
    direct(run, "S", {"start_time": "2099-01-01T00:00:00Z", "batch": 2})
    direct(run, "S", {"start_time": "2020-01-01T00:00:00Z", "next_by_subj": "S.b"})
    direct(run, "S", {"start_time": "bad", "batch": 2})


@scenario()
def direct_get_from_memory_and_after_delete(run: Run) -> None:
    run.stream("S", allow_direct=True, storage="memory")
    run.fill("S.a", 4)
    run.api("STREAM.MSG.DELETE.S", {"seq": 2})
    direct(run, "S", {"seq": 2})
    direct(run, "S", {"batch": 5, "seq": 1}, 4)


@scenario()
def mirror_direct_serves_the_origin(run: Run) -> None:
    run.stream("O", subjects=["o.>"], allow_direct=True)
    run.fill("o.a", 2)
    run.stream("M", mirror={"name": "O"}, mirror_direct=True)
    run.until("STREAM.INFO.M", lambda document: document["state"]["messages"] == 2)
    direct(run, "M", {"seq": 1})


@scenario()
def required_api_level_on_direct_get(run: Run) -> None:
    filled(run)
    block = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
    run.record_message(run.client.request("$JS.API.DIRECT.GET.S", b'{"seq":1}', block=block))
