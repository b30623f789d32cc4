"""Subject transforms on ingest and republishing of stored messages."""

from __future__ import annotations

from tests.conformance.scenario import Run, scenario


@scenario()
def republished_messages_carry_their_origin(run: Run) -> None:
    run.stream("S", republish={"src": "S.>", "dest": "R.>"})
    listener = run.subscribe("R.>")
    run.publish("S.a", "1")
    run.publish("S.b", "2", [("X", "y")])
    run.publish("S.a", "3")
    listener.take(3)


@scenario()
def republish_headers_only(run: Run) -> None:
    run.stream("S", republish={"src": "S.>", "dest": "R.>", "headers_only": True})
    listener = run.subscribe("R.>")
    run.publish("S.a", "12345")
    run.publish("S.a", "", [("X", "y")])
    listener.take(2)


@scenario()
def republish_of_some_subjects(run: Run) -> None:
    run.stream("S", republish={"src": "S.a.*", "dest": "R.$1"})
    listener = run.subscribe("R.>")
    run.publish("S.b", "no")
    run.publish("S.a.x", "yes")
    listener.take(1)
    listener.nothing()


@scenario()
def transform_renames_before_storing(run: Run) -> None:
    run.stream("S", subject_transform={"src": "S.*.*", "dest": "T.{{wildcard(2)}}.{{wildcard(1)}}"})
    run.publish("S.a.b", "1")
    run.publish("S.c", "2")
    run.publish("S.a.b", "3", [("Nats-Expected-Last-Subject-Sequence", "1")])
    run.stream_info("S", {"subjects_filter": ">"})
    run.consumer("S", "C", filter_subject="T.>", quiet=True)
    run.fetch("S", "C", 2)


@scenario()
def transform_functions(run: Run) -> None:
    destinations = (
        "T.{{wildcard(1)}}",
        "T.{{partition(5,1)}}",
        "T.{{split(1,-)}}",
        "T.{{splitfromleft(1,2)}}",
        "T.{{splitfromright(1,2)}}",
        "T.{{slicefromleft(1,3)}}",
        "T.{{slicefromright(1,3)}}",
        "T.{{left(1,3)}}",
        "T.{{right(1,3)}}",
        "T.{{Left(1, 2)}}.{{SplitFromLeft(1, 1)}}",
        "T.$1",
    )
    for number, destination in enumerate(destinations):
        name = f"S{number}"
        run.stream(name, subject_transform={"src": f"{name}.*", "dest": destination}, quiet=True)
        for token in ("ab-cd-ef", "x", "12345678"):
            run.publish(f"{name}.{token}", "x")
        run.stream_info(name, {"subjects_filter": ">"})


@scenario()
def partitions_are_deterministic(run: Run) -> None:
    destination = "T.{{partition(10,1,2)}}.{{wildcard(1)}}.{{wildcard(2)}}"
    run.stream("S", subject_transform={"src": "S.*.*", "dest": destination})
    for first in ("a", "orders", "zz9"):
        for second in ("1", "two", "333"):
            run.publish(f"S.{first}.{second}", "x")
    run.stream_info("S", {"subjects_filter": ">"})


@scenario()
def republish_after_transform(run: Run) -> None:
    run.stream("S", subject_transform={"src": "S.>", "dest": "T.>"}, republish={"src": "T.>", "dest": "R.>"})
    listener = run.subscribe("R.>")
    run.publish("S.a", "x")
    listener.take(1)


@scenario()
def settings_may_change(run: Run) -> None:
    run.stream("S")
    listener = run.subscribe("R.>")
    run.publish("S.a", "before")
    run.update_stream("S", republish={"src": "S.>", "dest": "R.>"})
    run.publish("S.a", "republished")
    listener.take(1)
    run.update_stream("S", subject_transform={"src": "S.a", "dest": "S.z"})
    run.publish("S.a", "renamed")
    run.stream_info("S", {"subjects_filter": ">"})


@scenario()
def a_republish_without_a_destination_goes_nowhere(run: Run) -> None:
    for source in (">", "R.a", ""):
        run.stream("R", republish={"src": source, "dest": ""})
        listener = run.subscribe(">")
        run.client.publish("R.a", b"x")
        listener.take(1)
        listener.nothing()
        listener.close()
        run.api("STREAM.DELETE.R")
