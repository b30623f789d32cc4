"""`jetspark publish`: send messages, one or many, to whoever listens or into a stream."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from jetspark.api.timestamps import format_duration, format_time
from jetspark.cli.bodies import (
    Templates,
    bodies,
    encode,
    header_option,
    read_headers,
    send_on_option,
    stdin_option,
    templates_option,
)
from jetspark.cli.connect import jetstream
from jetspark.cli.context import Command, Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS, human_count, human_size, now_ns
from jetspark.cli.errors import UsageError
from jetspark.cli.output import emit_json_line, note
from jetspark.cli.progress import progress_bar

if TYPE_CHECKING:
    from jetspark.client.infos import PubAck
    from jetspark.sync import JetStream

# More messages than this are counted, not listed.
LISTED_MAX = 20


@dataclass
class Outgoing:
    """One message to send."""

    subject: str
    data: bytes
    headers: list[tuple[str, str]]


def _schedule_headers(given: dict[str, Any]) -> list[tuple[str, str]]:
    """What the `--schedule-` options become: headers of the scheduled message."""
    rules = [
        f"@at {format_time(now_ns() + given['schedule_after'])}" if given["schedule_after"] else "",
        f"@at {given['schedule_at']}" if given["schedule_at"] else "",
        f"@every {format_duration(given['schedule_every'])}" if given["schedule_every"] else "",
        str(given["schedule_cron"] or ""),
    ]
    chosen = [rule for rule in rules if rule]
    if not chosen:
        if any(given.values()):
            raise UsageError("a schedule needs --schedule-after, --schedule-at, --schedule-every or --schedule-cron")
        return []
    if len(chosen) > 1 or not given["schedule_dest"]:
        raise UsageError("give one --schedule- time, and where it goes with --schedule-dest SUBJECT")
    headers = [("Nats-Schedule", chosen[0]), ("Nats-Schedule-Target", given["schedule_dest"])]
    if given["schedule_source"]:
        headers.append(("Nats-Schedule-Source", given["schedule_source"]))
    if given["schedule_ttl"]:
        headers.append(("Nats-Schedule-TTL", format_duration(given["schedule_ttl"])))
    return headers


@click.command("publish", cls=Command)
@click.argument("subject")
@click.argument("body", required=False)
@header_option
@click.option("--reply", default="", metavar="SUBJECT", help="Where answers should go")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="How many messages to send")
@click.option("--sleep", type=DURATION, default="0s", help="Wait so long between messages")
@click.option("--jetstream", "-J", "stored", is_flag=True, help="Publish to a stream and wait for its acknowledgement")
@click.option("--atomic", is_flag=True, help="Store all messages or none (implies --jetstream)")
@click.option("--schedule-after", type=DURATION, help="Send later, after so long (implies --jetstream)")
@click.option("--schedule-at", metavar="TIME", help="Send at an RFC 3339 time (implies --jetstream)")
@click.option("--schedule-every", type=DURATION, help="Send again and again (implies --jetstream)")
@click.option("--schedule-cron", metavar="CRON", help="Send by a cron rule (implies --jetstream)")
@click.option("--schedule-dest", metavar="SUBJECT", help="Where the scheduled message goes")
@click.option("--schedule-source", metavar="SUBJECT", help="Send the last message of this subject instead")
@click.option("--schedule-ttl", type=DURATION, help="How long scheduled messages live")
@stdin_option
@send_on_option
@templates_option
@click.option("--quiet", "-q", is_flag=True, help="Say nothing when it worked")
@pass_settings
def publish(
    settings: Settings,
    /,
    subject: str,
    body: str | None,
    headers: tuple[str, ...],
    reply: str,
    count: int,
    sleep: int,
    stored: bool,
    atomic: bool,
    force_stdin: bool,
    send_on: str,
    templates: bool,
    quiet: bool,
    **schedule: Any,
) -> None:
    """Publish messages to SUBJECT. Without BODY it is read from stdin.

    \b
    jetspark pub ORDERS.new "order {{Count}}" --count 10
    jetspark pub -J ORDERS.new hello -H Nats-Msg-Id:1

    Body, subject and header values may hold templates: {{Count}} the message's number, {{Time}} and {{TimeStamp}}
    the time, {{Unix}} and {{UnixNano}} the time as a number, {{ID}} a unique id, {{Random 10 100}} a random text.
    """
    extra = _schedule_headers(schedule)
    filled = Templates(enabled=templates)
    fixed = read_headers(headers)

    def outgoing() -> Iterator[Outgoing]:
        number = 0
        for text in bodies(body, force_stdin=force_stdin, send_on=send_on):
            for _ in range(count):
                number += 1
                pairs = [(name, filled.fill(value, number)) for name, value in fixed]
                yield Outgoing(filled.fill(subject, number), encode(filled.fill(text, number)), [*pairs, *extra])

    report = Report(settings, quiet=quiet, many=count > LISTED_MAX)
    with jetstream() as js, progress_bar("Publishing", count, show=report.many and not quiet) as bar:
        for message in _sent(js, outgoing(), reply, report, stored=stored or bool(extra), atomic=atomic):
            bar.advance()
            if sleep and message is not None:
                time.sleep(sleep / SECOND_NS)
        js.connection.flush()
    report.end()


def _sent(
    js: JetStream, outgoing: Iterator[Outgoing], reply: str, report: Report, *, stored: bool, atomic: bool
) -> Iterator[Outgoing]:
    """Send each message and give it back once it is on its way."""
    if atomic:
        batch = js.batch()
        last: Outgoing | None = None
        for message in outgoing:
            if last is not None:
                batch.add(last.subject, last.data, headers=last.headers)
                report.sent(last, None)
                yield last
            last = message
        if last is not None:
            report.sent(last, batch.commit(last.subject, last.data, headers=last.headers))
            yield last
        return
    for message in outgoing:
        if stored:
            report.sent(message, js.publish(message.subject, message.data, headers=message.headers))
        else:
            js.connection.publish(message.subject, message.data, reply=reply, headers=message.headers)
            report.sent(message, None)
        yield message


class Report:
    """What is told about publishing: a line each for a few messages, one line for many.

    All of it is about the doing, so in words it goes to stderr, as with `nats`; with --json it is the result.
    """

    def __init__(self, settings: Settings, *, quiet: bool, many: bool) -> None:
        self._json = settings.json
        self._quiet = quiet
        self.many = many
        self._count = 0
        self._bytes = 0
        self._subject = ""

    def sent(self, message: Outgoing, ack: PubAck | None) -> None:
        """One more."""
        self._count += 1
        self._bytes += len(message.data)
        self._subject = message.subject
        if self._quiet:
            return
        if self._json:
            emit_json_line({"subject": message.subject, "bytes": len(message.data), **_ack_document(ack)})
        elif not self.many:
            note(f'Published {len(message.data)} bytes to "{message.subject}"')
            if ack is not None:
                note(_ack_line(ack))

    def end(self) -> None:
        """All are sent."""
        if self.many and not self._quiet and not self._json:
            size = human_size(self._bytes)
            note(f'Published {human_count(self._count)} messages ({size}) to "{self._subject}"')


def _ack_document(ack: PubAck | None) -> dict[str, Any]:
    if ack is None:
        return {}
    document: dict[str, Any] = {"stream": ack.stream, "seq": ack.seq, "duplicate": ack.duplicate}
    if ack.domain:
        document["domain"] = ack.domain
    if ack.batch:
        document.update(batch=ack.batch, count=ack.count)
    return document


def _ack_line(ack: PubAck) -> str:
    parts = [f"Stored in Stream: {ack.stream} Sequence: {ack.seq}"]
    if ack.domain:
        parts.append(f"Domain: {ack.domain}")
    if ack.duplicate:
        parts.append("Duplicate: true")
    if ack.batch:
        parts.append(f"Batch: {ack.batch} Messages: {ack.count}")
    if ack.value:
        parts.append(f"Value: {ack.value}")
    return " ".join(parts)
