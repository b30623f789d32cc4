"""`jetspark subscribe`: show messages as they come, from core NATS or from a stream.

Decided here: which options mean a stream is read, and when there were enough messages. Without --durable the stream is
read in order by a consumer that leaves nothing behind; with it, a durable is made or used and its messages are
acknowledged. How each source is read is in `sub_sources`, what is shown of many messages together in `sub_views`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from jetspark.cli.connect import jetstream
from jetspark.cli.context import Command, Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS
from jetspark.cli.errors import UsageError
from jetspark.cli.messages import Direct, Printer, raw_option, translate_option
from jetspark.cli.names import complete_stream
from jetspark.cli.output import note
from jetspark.cli.stream_options import split_words
from jetspark.cli.sub_sources import Arrival, Source, from_core, from_stream, starts
from jetspark.cli.sub_views import GRAPHS_MAX, REFRESH_S, Tally, show_graph, show_tally


@click.command("subscribe", cls=Command)
@click.argument("subjects", nargs=-1)
@click.option("--queue", "queue_group", default="", help="Join a queue group: each message goes to one member")
@click.option("--inbox", "-i", is_flag=True, help="Subscribe to a new inbox subject")
@click.option("--stream", shell_complete=complete_stream, help="Read from this stream")
@click.option("--durable", default="", metavar="NAME", help="Use a durable consumer, made when it is not there")
@click.option("--all", "deliver_all", is_flag=True, help="From the stream's first message on")
@click.option("--new", "deliver_new", is_flag=True, help="Only messages to come, from the stream")
@click.option("--last", "deliver_last", is_flag=True, help="From the stream's last message on")
@click.option("--last-per-subject", is_flag=True, help="From each subject's last message on")
@click.option("--since", type=DURATION, help="From so long ago on, like 1d3h5m2s")
@click.option("--start-sequence", type=int, help="From this stream sequence on")
@click.option("--direct", is_flag=True, help="Get the stream's messages, without a consumer")
@click.option("--ack/--no-ack", default=None, help="Acknowledge messages that want it")
@click.option("--terminate-at-end", "-T", is_flag=True, help="End once everything in the stream was shown")
@click.option("--count", type=int, default=0, help="End after so many messages")
@click.option("--wait", type=DURATION, help="End after so long without a message")
@raw_option
@translate_option
@click.option("--headers-only", is_flag=True, help="Show headers and no data")
@click.option("--subjects-only", is_flag=True, help="Show only the subjects")
@click.option("--timestamp", "-t", is_flag=True, help="Show when each message came")
@click.option("--delta-time", "-d", is_flag=True, help="Show the time since the start")
@click.option("--dump", metavar="FOLDER", help="A file for each message; - writes data and a zero byte to stdout")
@click.option("--ignore-subject", "-I", "ignored", multiple=True, metavar="SUBJECT", help="Leave these out")
@click.option("--match-replies", is_flag=True, help="Show requests with their replies")
@click.option("--graph", is_flag=True, help="Draw how many messages come each second")
@click.option("--report-subjects", is_flag=True, help="Count messages by subject")
@click.option("--report-subscriptions", is_flag=True, help="Count messages by the subscription they came by")
@click.option("--report-top", type=int, default=10, show_default=True, help="How many lines the report shows")
@pass_settings
def subscribe(
    settings: Settings,
    /,
    subjects: tuple[str, ...],
    inbox: bool,
    count: int,
    wait: int | None,
    ignored: tuple[str, ...],
    match_replies: bool,
    graph: bool,
    report_subjects: bool,
    report_subscriptions: bool,
    report_top: int,
    ack: bool | None,
    terminate_at_end: bool,
    **options: Any,
) -> None:
    """Show the messages of SUBJECTS as they come; end with Ctrl-C.

    A stream whose messages are read once only (a work queue, or by interest) is read by gets, so that none is taken.

    \b
    jetspark sub 'ORDERS.*'
    jetspark sub --stream ORDERS --all -T
    """
    printer = Printer(
        as_json=settings.json,
        **{name: options.pop(name) for name in ("raw", "headers_only", "subjects_only", "timestamp", "delta_time")},
        **{name: options.pop(name) for name in ("translate", "dump")},
    )
    wanted = split_words(subjects)
    is_stream = bool(options["stream"] or options["durable"] or options["direct"] or starts(options))
    reports = report_subjects or report_subscriptions
    _check(wanted, is_stream=is_stream, match_replies=match_replies, graph=graph)
    limits = Limits(count, wait, ignored, terminate_at_end and is_stream)
    with jetstream() as js:
        if inbox:
            wanted.append(js.connection.new_inbox())
            note(f"Subscribing on {wanted[-1]}")
        if not wanted and not options.get("stream"):
            raise UsageError("missing SUBJECTS", hint="Name a subject, --stream or --inbox.")
        told = _nothing if printer.is_bare else note
        if is_stream:
            reading = from_stream(js, wanted, options, told)
        else:
            reading = from_core(js.connection, wanted, options["queue_group"], told, match_replies=match_replies)
        acks = ack or (ack is None and bool(options["durable"]))
        with reading as source:
            arrivals = _arrivals(source, limits, acks=acks, beats=reports or graph)
            if reports:
                show_tally(settings, Tally(by_subscription=report_subscriptions, top=report_top), arrivals)
            elif graph:
                show_graph(settings, _patterns(wanted, options, is_stream=is_stream), arrivals)
            else:
                for arrival in arrivals:
                    if arrival is not None:
                        printer.show(arrival.message, arrival.reply)


def _check(subjects: list[str], *, is_stream: bool, match_replies: bool, graph: bool) -> None:
    if match_replies and is_stream:
        raise UsageError("--match-replies is about requests as they are made: a stream does not have their replies")
    if graph and len(subjects) > GRAPHS_MAX and not is_stream:
        raise UsageError(f"--graph draws at most {GRAPHS_MAX} subjects", hint="Use --report-subscriptions for more.")


def _patterns(subjects: list[str], options: dict[str, Any], *, is_stream: bool) -> list[str]:
    """What is drawn: each subscription; a stream has one."""
    return [", ".join(subjects) or options["stream"]] if is_stream else subjects


def _nothing(text: str) -> None:
    """Where a script reads, the doing is not told."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When there were enough messages, and which are none."""

    count: int
    wait_ns: int | None
    ignored: tuple[str, ...]
    at_end: bool

    @property
    def wait_s(self) -> float | None:
        """How long to wait for a message. At the end of a stream none comes: half a second tells an empty one."""
        if self.wait_ns is None:
            return 0.5 if self.at_end else None
        return self.wait_ns / SECOND_NS


def _arrivals(source: Source, limits: Limits, *, acks: bool, beats: bool) -> Iterator[Arrival | None]:
    """Until there were enough, none came for a while, or the stream's end is reached; with beats, None now and then."""
    from jetspark.protocol.subjects import matches

    shown, heard_s = 0, time.monotonic()
    wait_s = limits.wait_s
    while True:
        left_s = None if wait_s is None else max(0.0, heard_s + wait_s - time.monotonic())
        arrival = source(left_s if not beats else REFRESH_S if left_s is None else min(left_s, REFRESH_S))
        if arrival is None:
            if wait_s is not None and time.monotonic() - heard_s >= wait_s:
                return
            if beats:
                yield None
            continue
        heard_s = time.monotonic()
        message = arrival.message
        subject = message.subject.encode()
        if not any(matches(pattern.encode(), subject) for pattern in limits.ignored):
            shown += 1
            yield arrival
            if acks and not isinstance(message, Direct) and message.is_jetstream:
                message.ack(wait=True)
        if (limits.at_end and arrival.is_last) or (limits.count and shown >= limits.count):
            return
