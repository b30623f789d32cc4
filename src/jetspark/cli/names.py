"""Arguments that name things on the server: completed by the shell, asked for at the terminal.

Decided here: the short patience of a completion, and that it never fails aloud. Not known here: what is done with the
thing named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from jetspark.cli.clusters import servers
from jetspark.cli.context import settings_of
from jetspark.cli.explain import no_consumer_named, no_stream_named
from jetspark.cli.prompts import choose
from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.sync import Consumer, JetStream, Stream

COMPLETION_TIMEOUT_S: Final = 1.0
# Streams behind key-value buckets, object stores and the like; shown with --all only, as in `nats`.
INTERNAL_PREFIXES: Final = ("KV_", "OBJ_", "MQTT_", "$")
_SHOW_ALL: Final = "jetspark.show_all"

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def is_internal(stream_name: str) -> bool:
    """A stream that belongs to something else."""
    return stream_name.startswith(INTERNAL_PREFIXES)


def from_server(ctx: click.Context, ask: Callable[[JetStream], list[str]]) -> list[str]:
    """Names from the server for a completion; none when it does not answer at once."""
    from jetspark.cli.connect import connect_options, effective, make_jetstream
    from jetspark.sync import connect

    try:
        settings = effective(settings_of(ctx))
        settings.timeout = int(COMPLETION_TIMEOUT_S * 1_000_000_000)
        with connect(**connect_options(settings)) as connection:
            return sorted(ask(make_jetstream(connection, settings)))
    except (JetsparkError, OSError, click.ClickException):
        return []


def complete_stream(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Streams that begin like this."""
    names = from_server(ctx, lambda jetstream: jetstream.stream_names())
    return [name for name in names if name.startswith(incomplete) and (incomplete or not is_internal(name))]


def complete_consumer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Consumers, of the stream named before, that begin like this."""
    stream = str(ctx.params.get("stream") or "")
    if not stream:
        return []
    names = from_server(ctx, lambda jetstream: jetstream.stream_handle(stream).consumer_names())
    return [name for name in names if name.startswith(incomplete)]


def complete_peer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Servers that have the stream, or the consumer, named before."""
    stream, consumer = (str(ctx.params.get(name) or "") for name in ("stream", "consumer"))
    if not stream:
        return []

    def ask(jetstream: JetStream) -> list[str]:
        named = jetstream.stream_handle(stream)
        return servers((named.consumer(consumer).cached_info if consumer else named.info()).cluster)

    return [name for name in from_server(ctx, ask) if name.startswith(incomplete)]


def _keep_show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[_SHOW_ALL] = value


def stream_argument(decorated: Decorated) -> Decorated:
    """`[STREAM]`, asked for when missing; with --all, which `nats` has here too, among the internal ones as well."""
    decorated = click.option(
        "--all",
        "-a",
        is_flag=True,
        expose_value=False,
        callback=_keep_show_all,
        help="Offer the streams of buckets and the like too",
    )(decorated)
    return click.argument("stream", required=False, shell_complete=complete_stream)(decorated)


def consumer_argument(decorated: Decorated) -> Decorated:
    """`[CONSUMER]`, asked for when missing."""
    return click.argument("consumer", required=False, shell_complete=complete_consumer)(decorated)


def pick_stream(jetstream: JetStream, name: str | None) -> Stream:
    """The stream named, or the one chosen at the terminal."""
    from jetspark.client.api_errors import StreamNotFoundError

    if not name:
        show_all = click.get_current_context().meta.get(_SHOW_ALL)
        names = [one for one in sorted(jetstream.stream_names()) if show_all or not is_internal(one)]
        name = choose("Which stream?", names, argument="STREAM")
    try:
        return jetstream.stream(name)
    except StreamNotFoundError:
        raise no_stream_named(jetstream, name) from None


def pick_consumer(stream: Stream, name: str | None) -> Consumer:
    """The consumer named, or the one chosen at the terminal."""
    from jetspark.client.api_errors import ConsumerNotFoundError

    if not name:
        name = choose("Which consumer?", sorted(stream.consumer_names()), argument="CONSUMER")
    try:
        return stream.consumer(name)
    except ConsumerNotFoundError:
        raise no_consumer_named(stream.jetstream, stream.name, name) from None
