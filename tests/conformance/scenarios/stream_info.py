"""Asking about streams: info, names, lists, paging, account info."""

from __future__ import annotations

from tests.conformance.scenario import Run, Server, scenario

OWN = Server(own=True)


@scenario()
def state_counts_messages_bytes_and_subjects(run: Run) -> None:
    run.stream("S")
    run.stream_info("S")
    run.publish("S.a", "hello")
    run.stream_info("S")
    run.publish("S.bb", "hello", [("X", "1")])
    run.stream_info("S")


@scenario()
def memory_bytes_are_counted_differently(run: Run) -> None:
    run.stream("S", storage="memory")
    run.publish("S.a", "hello")
    run.publish("S.bb", "hello", [("X", "1")])
    run.stream_info("S")


@scenario()
def subjects_filter_lists_subjects(run: Run) -> None:
    run.stream("S")
    for subject in ("S.a", "S.b", "S.a", "S.c.d"):
        run.fill(subject, 1)
    for pattern in (">", "S.*", "S.a", "S.none", "other", "S..bad"):
        run.stream_info("S", {"subjects_filter": pattern})
    run.stream_info("S", {"subjects_filter": ">", "offset": 2})
    run.stream_info("S", {"subjects_filter": ">", "offset": 99})


@scenario()
def deleted_details_list_the_gaps(run: Run) -> None:
    run.stream("S")
    run.fill("S.a", 8)
    for seq in (2, 5, 6):
        run.api("STREAM.MSG.DELETE.S", {"seq": seq})
    run.stream_info("S")
    run.stream_info("S", {"deleted_details": True})
    run.api("STREAM.MSG.DELETE.S", {"seq": 1})
    run.stream_info("S", {"deleted_details": True})
    run.api("STREAM.MSG.DELETE.S", {"seq": 8})
    run.stream_info("S", {"deleted_details": True})


@scenario()
def first_seq_starts_the_numbering(run: Run) -> None:
    run.stream("S", first_seq=100)
    run.stream_info("S")
    run.publish("S.a", "x")
    run.stream_info("S")


@scenario()
def info_refuses_bad_requests(run: Run) -> None:
    run.stream_info("NOPE")
    run.stream("S")
    run.stream_info("S", {"unknown": 1})
    run.stream_info("S", b"{")
    run.stream_info("S", {})


@scenario()
def names_and_lists_are_sorted_and_filtered(run: Run) -> None:
    run.api("STREAM.NAMES")
    run.api("STREAM.LIST")
    run.stream("B", subjects=["b.>"])
    run.stream("A", subjects=["a.*", "x"])
    run.stream("C", subjects=["c"])
    run.api("STREAM.NAMES")
    run.api("STREAM.NAMES", {"subject": "a.1"})
    run.api("STREAM.NAMES", {"subject": ">"})
    run.api("STREAM.NAMES", {"subject": "*"})
    run.api("STREAM.NAMES", {"subject": "none"})
    run.api("STREAM.LIST", {"subject": "b.x"})
    run.api("STREAM.LIST")


@scenario()
def names_and_lists_are_paged(run: Run) -> None:
    for number in range(5):
        run.stream(f"S{number}", quiet=True)
    run.api("STREAM.NAMES", {"offset": 3})
    run.api("STREAM.NAMES", {"offset": 5})
    run.api("STREAM.NAMES", {"offset": 50})
    run.api("STREAM.NAMES", {"offset": -1})
    run.api("STREAM.LIST", {"offset": 4})
    run.api("STREAM.LIST", {"offset": 50})
    run.api("STREAM.NAMES", {"offset": "x"})
    run.api("STREAM.LIST", {"zzz": "x"})


@scenario()
def consumer_names_and_lists(run: Run) -> None:
    run.api("CONSUMER.NAMES.NOPE")
    run.api("CONSUMER.LIST.NOPE")
    run.stream("S")
    run.api("CONSUMER.NAMES.S")
    run.api("CONSUMER.LIST.S")
    for name in ("c", "a", "b"):
        run.consumer("S", name, quiet=True)
    run.api("CONSUMER.NAMES.S")
    run.api("CONSUMER.NAMES.S", {"offset": 2})
    run.api("CONSUMER.NAMES.S", {"offset": 9})
    run.api("CONSUMER.LIST.S", {"offset": 1})
    run.api("CONSUMER.NAMES.S", {"nope": 2})


@scenario(OWN)
def account_info_adds_everything_up(run: Run) -> None:
    run.api("INFO")
    run.stream("M", storage="memory", quiet=True)
    run.stream("F", max_bytes=10_000, quiet=True)
    run.fill("M.a", 2)
    run.fill("F.a", 3)
    run.consumer("F", "C", quiet=True)
    run.stream_info("NOPE")
    run.api("INFO")
    run.api("INFO", b"{}")
    run.api("INFO", b"junk")


@scenario()
def api_without_a_reply_still_acts(run: Run) -> None:
    run.client.publish("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}')
    run.until("STREAM.INFO.S", lambda document: "error" not in document)


@scenario()
def old_and_empty_bodies_mean_the_same(run: Run) -> None:
    run.stream("S")
    run.api("STREAM.NAMES", b"{}")
    run.api("STREAM.INFO.S", b"{}")
    run.api("STREAM.DELETE.S", b"{}")


@scenario(Server(own=True))
def what_the_api_counts(run: Run) -> None:
    run.stream("S", quiet=True)
    run.stream("D", deny_delete=True, quiet=True)
    run.consumer("S", "C", quiet=True)
    audits = run.subscribe("$JS.EVENT.ADVISORY.API")
    for verb, body in (
        ("STREAM.MSG.DELETE.S", {"seq": 1}),
        ("STREAM.MSG.DELETE.D", {"seq": 1}),
        ("STREAM.MSG.DELETE.NOPE", {"seq": 1}),
        ("STREAM.MSG.DELETE.S", {"seq": "x"}),
        ("CONSUMER.RESET.S.C", None),
        ("CONSUMER.RESET.S.C", {"seq": "x"}),
        ("STREAM.INFO.NOPE", None),
    ):
        run.api(verb, body)
        run.record("counted", verb, api=run.api("INFO", quiet=True)["api"])
    audits.take(12)
    audits.nothing()
