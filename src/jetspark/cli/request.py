"""`jetspark request` and `jetspark reply`: both sides of a question."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

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
from jetspark.cli.connect import connected
from jetspark.cli.context import Command, Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS, human_trip
from jetspark.cli.errors import TIMED_OUT, CliError, UsageError
from jetspark.cli.messages import raw_option, received_document, show_headers, translate_option, translated
from jetspark.cli.output import echo, emit_json_line, note, text_of, warn, write_bytes
from jetspark.clock import SystemClock

if TYPE_CHECKING:
    from jetspark.sync import Connection, Msg

# The queue group `nats reply` joins too, so that both share the work.
REPLY_GROUP = "NATS-RPLY-22"


@click.command("request", cls=Command)
@click.argument("subject")
@click.argument("body", required=False)
@raw_option
@header_option
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="How many requests to send")
@click.option(
    "--replies", type=int, default=1, show_default=True, help="How many replies to wait for; 0: until timeout"
)
@click.option("--reply-timeout", type=DURATION, default="300ms", show_default=True, help="Longest wait between replies")
@click.option("--wait-for-empty", is_flag=True, help="Take replies until an empty one comes")
@translate_option
@stdin_option
@send_on_option
@templates_option
@pass_settings
def request(
    settings: Settings,
    /,
    subject: str,
    body: str | None,
    raw: bool,
    headers: tuple[str, ...],
    count: int,
    replies: int,
    reply_timeout: int,
    wait_for_empty: bool,
    translate: str | None,
    force_stdin: bool,
    send_on: str,
    templates: bool,
) -> None:
    """Send a request to SUBJECT and show the reply. Without BODY it is read from stdin.

    \b
    jetspark req help.please hello
    jetspark req -H Nats-Msg-Id:1 ORDERS.new hello1

    A stream replies with its acknowledgement. Body and headers may hold templates, as in `jetspark publish`.
    """
    filled, fixed, number = Templates(enabled=templates), read_headers(headers), 0
    single = replies == 1 and not wait_for_empty
    quiet = raw or settings.json
    with connected() as connection:
        for text in bodies(body, force_stdin=force_stdin, send_on=send_on):
            for _ in range(count):
                number += 1
                pairs = [(name, filled.fill(value, number)) for name, value in fixed]
                data, to = encode(filled.fill(text, number)), filled.fill(subject, number)
                if not quiet:
                    note(f'Sending request on "{to}"')
                started_ns = SystemClock().monotonic_ns()
                if single:
                    answers: Iterator[Msg] = iter([connection.request(to, data, headers=pairs)])
                else:
                    limits = (replies, settings.timeout_s, reply_timeout / SECOND_NS, wait_for_empty)
                    answers = _several(connection, to, data, pairs, limits)
                for answer in answers:
                    took_ns = SystemClock().monotonic_ns() - started_ns
                    _show_answer(answer, took_ns, raw=raw, as_json=settings.json, translate=translate)


def _several(
    connection: Connection, subject: str, data: bytes, headers: Any, limits: tuple[int, float, float, bool]
) -> Iterator[Msg]:
    """Replies until there were enough, an empty one came, or no more came in time."""
    from jetspark.client.errors import NoRespondersError

    replies, first_s, between_s, until_empty = limits
    inbox = connection.new_inbox()
    with connection.subscribe(inbox) as subscription:
        connection.publish(subject, data, reply=inbox, headers=headers)
        got = 0
        while not replies or until_empty or got < replies:
            answer = subscription.next(between_s if got and replies != 0 else first_s)
            if answer is None:
                if got == 0:
                    raise CliError(
                        f"no reply on {subject} in time", hint="Wait longer with --timeout.", exit_code=TIMED_OUT
                    )
                return
            if answer.status_code == 503:
                raise NoRespondersError(subject)
            if until_empty and not answer.data:
                return
            got += 1
            yield answer


def _show_answer(answer: Msg, took_ns: int, *, raw: bool, as_json: bool, translate: str | None) -> None:
    if as_json:
        emit_json_line({**received_document(answer), "rtt_ns": took_ns})
    elif raw:
        write_bytes(translated(answer.data, translate) + b"\n")
    else:
        note(f"Received with rtt {human_trip(took_ns)}")
        show_headers(answer.headers)
        echo(text_of(translated(answer.data, translate)) + "\n")


@click.command("reply", cls=Command)
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--echo", "echoes", is_flag=True, help="Send back what came")
@click.option("--command", metavar="COMMAND", help="Run this and reply with its output when it exits with 0")
@click.option("--queue", "-q", "queue_group", default=REPLY_GROUP, show_default=True, help="Queue group to join")
@click.option("--sleep", type=DURATION, help="Wait a random time, at most this, before each reply")
@header_option
@click.option("--count", type=int, default=0, help="End after so many requests")
@pass_settings
def reply(
    settings: Settings,
    /,
    subject: str,
    body: str | None,
    echoes: bool,
    command: str | None,
    queue_group: str,
    sleep: int | None,
    headers: tuple[str, ...],
    count: int,
) -> None:
    """Answer the requests on SUBJECT, with what came unless told otherwise; end with Ctrl-C.

    \b
    jetspark reply help.please "I can help"
    jetspark reply 'weather.>' --command "curl -s wttr.in/{{1}}?format=3"

    In a body {{Request}} is the request's data and {{Count}} its number; in a command {{1}} is what the second token
    of the subject was, and so on. A command also finds NATS_REQUEST_SUBJECT and NATS_REQUEST_BODY in its environment.
    """
    if sum((body is not None, echoes, command is not None)) > 1:
        raise UsageError("say what to reply: one of BODY, --echo and --command")
    # As with `nats`: without a word on what to reply it is an echo.
    echoes = body is None and command is None
    fixed, filled, chance, number = read_headers(headers), Templates(), random.Random(), 0
    with connected() as connection, connection.subscribe(subject, queue=queue_group) as subscription:
        connection.flush()
        note(f'Listening on "{subject}" in group "{queue_group}"' + (", sending back what comes" if echoes else ""))
        for message in subscription:
            number += 1
            if not settings.json:
                note(f'[#{number}] Received on subject "{message.subject}":')
                show_headers(message.headers)
                echo(text_of(message.data))
            else:
                emit_json_line(received_document(message))
            if sleep:
                time.sleep(chance.uniform(0, sleep / SECOND_NS))
            pairs = [(name, filled.fill(value, number)) for name, value in fixed]
            _answer(message, pairs, echoes, command, filled.fill(body or "", number, request=message.data))
            if count and number >= count:
                break
        connection.flush()


def _answer(message: Msg, headers: list[tuple[str, str]], echoes: bool, command: str | None, text: str) -> None:
    if not message.reply:
        warn(f"the message on {message.subject} wants no reply")
        return
    if echoes:
        message.respond(message.data, headers=[*message.headers.all_items(), *headers])
    elif command is not None:
        output = _run(command, message)
        if output is not None:
            message.respond(output, headers=headers)
    else:
        message.respond(encode(text), headers=headers)


def _run(command: str, message: Msg) -> bytes | None:
    """The command's output; None, and a warning, when it fails.

    No shell is in between: a request cannot become code.
    """
    tokens = message.subject.split(".")
    words = []
    for word in shlex.split(command):
        for number, token in enumerate(tokens):
            word = word.replace(f"{{{{{number}}}}}", token)
        words.append(Templates().fill(word, 0, request=message.data))
    told = {
        "NATS_REQUEST_SUBJECT": message.subject,
        "NATS_REQUEST_BODY": message.data.decode("utf-8", "backslashreplace").replace("\0", ""),
    }
    try:
        result = subprocess.run(words, env={**os.environ, **told}, capture_output=True, check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        warn(f"the command failed, no reply was sent: {error}")
        return None
    return result.stdout
