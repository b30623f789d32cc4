"""What to do next: an error turned into a message that knows the server it came from.

Decided here: which errors are worth a second question to the server (which streams are there?), asked with a short
patience because the first question has already gone wrong.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import click

from jetspark.cli.errors import FAILED, NOT_FOUND, TIMED_OUT, CliError, exit_code_of, failure
from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.sync import JetStream

# Longer lists are cut: the message should fit a screen.
NAMES_SHOWN = 12


def listed(names: list[str]) -> str:
    """Some names for a message."""
    if not names:
        return "none"
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _names(ask: Any) -> list[str]:
    """Names from the server; none when it cannot tell."""
    try:
        return sorted(ask())
    except (JetsparkError, TimeoutError):
        return []


def _near(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5) or [
        one for one in names if one.lower() == name.lower()
    ]
    return f" Did you mean {near[0]}?" if near else ""


def no_stream_named(jetstream: JetStream, name: str) -> CliError:
    """The stream asked for is not there; these are."""
    names = _names(jetstream.stream_names)
    hint = f"Make it with: jetspark stream add {name} --subjects SUBJECT"
    return CliError(
        f"no stream {name}; streams here: {listed(names)}.{_near(name, names)}", hint=hint, exit_code=NOT_FOUND
    )


def no_consumer_named(jetstream: JetStream, stream: str, name: str) -> CliError:
    """The consumer asked for is not there; these are."""
    names = _names(jetstream.stream_handle(stream).consumer_names)
    hint = f"Make it with: jetspark consumer add {stream} {name} --pull"
    text = f"no consumer {name} on stream {stream}; consumers here: {listed(names)}.{_near(name, names)}"
    return CliError(text, hint=hint, exit_code=NOT_FOUND)


def no_stream_for(jetstream: JetStream, subject: str, *, besides: str = "") -> CliError:
    """Nobody stores the subject (nor does what is said besides); these streams are there, with these subjects."""
    try:
        streams = [f"{one.name} ({', '.join(one.config.subjects or ['no subjects'])})" for one in jetstream.streams()]
    except (JetsparkError, TimeoutError):
        streams = []
    hint = f"Make one with: jetspark stream add NAME --subjects '{subject}'"
    return CliError(
        f"{besides}no stream listens on {subject}; streams here: {listed(sorted(streams))}",
        hint=hint,
        exit_code=NOT_FOUND,
    )


def explained(error: BaseException, jetstream: JetStream, ctx: click.Context) -> CliError:
    """The end of a command, in words that help."""
    from jetspark.client import api_errors, errors

    stream, consumer = str(ctx.params.get("stream") or ""), str(ctx.params.get("consumer") or "")
    match error:
        case errors.NoStreamError():
            return no_stream_for(jetstream, error.subject)
        case api_errors.StreamNotFoundError() if stream:
            return no_stream_named(jetstream, stream)
        case api_errors.ConsumerNotFoundError() if stream and consumer:
            return no_consumer_named(jetstream, stream, consumer)
        case api_errors.StreamExistsError() if stream:
            return failure(error, hint=f"Change it with: jetspark stream edit {stream}")
        case api_errors.ConsumerExistsError() if stream and consumer:
            return failure(error, hint=f"Change it with: jetspark consumer edit {stream} {consumer}")
        case api_errors.NoJetStreamError() | api_errors.JetStreamDisabledError():
            hint = "Start the server with -js, or check --js-domain and --js-api-prefix."
            return CliError("JetStream does not answer here: it is off, or elsewhere", hint=hint, exit_code=FAILED)
        case errors.NoRespondersError():
            return no_stream_for(jetstream, error.subject, besides="no service answers and ")
        case errors.RequestTimeoutError():
            return CliError(f"no answer in time: {error}", hint="Wait longer with --timeout.", exit_code=TIMED_OUT)
        case JetsparkError():
            return failure(error)
    return CliError(str(error) or "timed out", exit_code=exit_code_of(error))
