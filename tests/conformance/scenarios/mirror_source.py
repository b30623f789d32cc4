"""Mirrors and sources inside one server."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario import Run, scenario


def messages(count: int) -> Any:
    return lambda document: document["state"]["messages"] == count


@scenario()
def mirror_copies_sequences_and_subjects(run: Run) -> None:
    run.stream("O", subjects=["o.>"])
    run.fill("o.a", 2)
    run.fill("o.b", 1)
    run.stream("M", mirror={"name": "O"})
    run.until("STREAM.INFO.M", messages(3))
    run.api("STREAM.MSG.GET.M", {"seq": 3})
    run.publish("o.c", "live")
    run.until("STREAM.INFO.M", messages(4), {"subjects_filter": ">"})
    run.record_message(run.client.request("M", b"nobody listens"))


@scenario()
def mirror_keeps_gaps(run: Run) -> None:
    run.stream("O", subjects=["o.>"])
    run.fill("o.a", 5)
    run.api("STREAM.MSG.DELETE.O", {"seq": 3}, quiet=True)
    run.api("STREAM.MSG.DELETE.O", {"seq": 1}, quiet=True)
    run.stream("M", mirror={"name": "O"})
    run.until("STREAM.INFO.M", messages(3), {"deleted_details": True})


@scenario()
def mirror_with_filter_and_start(run: Run) -> None:
    run.stream("O", subjects=["o.>"])
    run.fill("o.a", 3)
    run.fill("o.b", 3)
    run.stream("M", mirror={"name": "O", "filter_subject": "o.b", "opt_start_seq": 5})
    run.until("STREAM.INFO.M", messages(2))
    run.api("STREAM.MSG.GET.M", {"last_by_subj": "o.b"})


@scenario()
def mirror_may_be_made_before_its_origin(run: Run) -> None:
    run.stream("M", mirror={"name": "O"})
    run.stream_info("M")
    run.stream("O", subjects=["o.>"])
    run.fill("o.a", 1)
    run.update_stream("M", mirror={"name": "O2"})


@scenario()
def mirror_with_transforms(run: Run) -> None:
    run.stream("O", subjects=["o.>"])
    run.fill("o.a", 1)
    run.fill("o.b", 1)
    run.stream("M", mirror={"name": "O", "subject_transforms": [{"src": "o.a", "dest": "m.a"}]})
    run.until("STREAM.INFO.M", messages(1), {"subjects_filter": ">"})


@scenario()
def mirror_can_be_promoted(run: Run) -> None:
    run.stream("O", subjects=["o.>"])
    run.fill("o.a", 2)
    run.stream("M", mirror={"name": "O"})
    run.until("STREAM.INFO.M", messages(2))
    run.update_stream("M", subjects=["m.>"])
    run.publish("m.x", "own")
    run.stream_info("M")


@scenario()
def sources_add_a_header_and_new_sequences(run: Run) -> None:
    run.stream("A", subjects=["a.>"])
    run.fill("a.1", 2)
    run.stream("S", sources=[{"name": "A"}])
    run.until("STREAM.INFO.S", messages(2))
    run.api("STREAM.MSG.GET.S", {"seq": 1})
    run.publish("a.2", "live", [("X", "y")])
    run.until("STREAM.INFO.S", messages(3))
    run.api("STREAM.MSG.GET.S", {"seq": 3})


@scenario()
def sources_with_filter_and_transform(run: Run) -> None:
    run.stream("A", subjects=["a.>"])
    run.fill("a.1", 2)
    run.fill("a.2", 2)
    run.stream("F", sources=[{"name": "A", "filter_subject": "a.2", "opt_start_seq": 4}])
    run.until("STREAM.INFO.F", messages(1))
    run.api("STREAM.MSG.GET.F", {"seq": 1})
    run.stream("T", sources=[{"name": "A", "subject_transforms": [{"src": "a.1", "dest": "t.one"}]}])
    run.until("STREAM.INFO.T", messages(2), {"subjects_filter": ">"})
    run.api("STREAM.MSG.GET.T", {"seq": 2})


@scenario()
def several_sources_and_own_subjects(run: Run) -> None:
    run.stream("A", subjects=["a.>"])
    run.stream("B", subjects=["b.>"])
    run.stream("S", sources=[{"name": "A"}, {"name": "B"}], subjects=["s.>"])
    run.until("STREAM.INFO.S", lambda document: all(source["active"] >= 0 for source in document["sources"]))
    run.publish("a.1", "a")
    run.until("STREAM.INFO.S", messages(1))
    run.publish("b.1", "b")
    run.until("STREAM.INFO.S", messages(2))
    run.publish("s.1", "own")
    run.stream_info("S", {"subjects_filter": ">"})


@scenario()
def sources_may_be_added_and_removed(run: Run) -> None:
    run.stream("A", subjects=["a.>"])
    run.fill("a.1", 2)
    run.stream("S", subjects=["s.>"])
    run.update_stream("S", subjects=["s.>"], sources=[{"name": "A"}])
    run.until("STREAM.INFO.S", messages(2))
    run.update_stream("S", subjects=["s.>"])
    run.publish("s.1", "own")
    run.stream_info("S")


@scenario()
def source_of_a_missing_stream(run: Run) -> None:
    run.stream("S", sources=[{"name": "NOPE"}])
    run.stream_info("S")


@scenario()
def work_queue_as_a_source_is_drained(run: Run) -> None:
    run.stream("W", subjects=["w.>"], retention="workqueue")
    run.fill("w.a", 3)
    run.stream("S", sources=[{"name": "W"}])
    run.until("STREAM.INFO.S", messages(3))
    run.until("STREAM.INFO.W", messages(0))
