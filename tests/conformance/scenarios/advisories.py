"""Advisories and metrics: who is told what."""

from __future__ import annotations

from tests.conformance.scenario import Run, scenario

SECOND = 1_000_000_000


@scenario()
def stream_actions(run: Run) -> None:
    advisories = run.subscribe("$JS.EVENT.ADVISORY.STREAM.>")
    run.stream("S", quiet=True)
    advisories.take(1)
    run.update_stream("S", description="changed")
    advisories.take(1)
    run.api("STREAM.DELETE.S", quiet=True)
    advisories.take(1)


@scenario()
def consumer_actions(run: Run) -> None:
    run.stream("S", quiet=True)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.>")
    run.consumer("S", "C", quiet=True)
    advisories.take(1)
    run.consumer("S", "C", description="changed", quiet=True)
    run.api("CONSUMER.DELETE.S.C", quiet=True)
    advisories.take(1)


@scenario()
def deleting_a_stream_tells_of_its_consumers(run: Run) -> None:
    run.stream("S", quiet=True)
    run.consumer("S", "C", quiet=True)
    consumers = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.>")
    streams = run.subscribe("$JS.EVENT.ADVISORY.STREAM.>")
    run.api("STREAM.DELETE.S", quiet=True)
    streams.take(1)
    consumers.nothing()


@scenario()
def audit_of_api_calls(run: Run) -> None:
    run.client.flush()
    advisories = run.subscribe("$JS.EVENT.ADVISORY.API")
    run.stream("S", quiet=True)
    advisories.take(1)
    run.stream_info("NOPE")
    advisories.take(1)
    run.api("STREAM.NAMES", quiet=True)
    advisories.take(1)


@scenario()
def naks_and_terminations(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 2)
    run.consumer("S", "C", quiet=True)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.>")
    first, second = run.fetch("S", "C", 2)
    run.ack(first, "-NAK")
    advisories.take(1)
    run.ack(second, "+TERM because")
    advisories.take(1)
    again = run.fetch("S", "C", 1)[0]
    run.ack(again, "-NAK")
    advisories.take(1)


@scenario()
def advisories_can_be_stored(run: Run) -> None:
    run.stream("ADV", subjects=["$JS.EVENT.ADVISORY.CONSUMER.CREATED.>"], quiet=True)
    run.stream("S", quiet=True)
    run.consumer("S", "C", quiet=True)
    run.consumer("ADV", "R", ack_policy="none", filter_subject="$JS.EVENT.ADVISORY.CONSUMER.CREATED.S.C", quiet=True)
    run.fetch("ADV", "R", 1)


@scenario()
def metrics_count_deliveries(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 1)
    run.consumer("S", "C", sample_freq="100%", ack_wait=SECOND // 4, quiet=True)
    metrics = run.subscribe("$JS.EVENT.METRIC.>")
    run.fetch("S", "C", 1)
    run.ack(run.fetch("S", "C", 1)[0])
    metrics.take(1)
