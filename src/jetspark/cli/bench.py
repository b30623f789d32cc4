"""`jetspark bench`: how fast a server is, or which of two is faster.

Decided here: the words and flags (those of `nats bench`) and the order of things: prepare, run, clean up, show; with
--against the same on two servers in turn, round by round, so that whatever else the machine does meets both alike.
What is measured is in `bench_jobs`, how in `bench_run`, and how it is shown in `bench_report`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from jetspark.cli.bench_plan import BATCH_COUNT, BUCKET, CONSUMER, STREAM, Kind, Plan
from jetspark.cli.buckets import pairs
from jetspark.cli.connect import DEFAULT_SERVER, connected, effective, shown_servers
from jetspark.cli.context import Noun, Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS, SIZE, now_ns
from jetspark.cli.errors import NOT_FOUND, CliError, NotFound, UsageError, exit_code_of
from jetspark.cli.names import complete_stream
from jetspark.cli.output import echo, emit_json, note
from jetspark.cli.progress import Bar, progress_bar, progress_option
from jetspark.clock import SystemClock
from jetspark.errors import JetsparkError
from jetspark.protocol.fast_batch import FLOW_ASKED_MAX

if TYPE_CHECKING:
    from jetspark.cli.bench_numbers import Outcome
    from jetspark.cli.bench_prepare import Preparation
    from jetspark.cli.bench_report import Side

Function = TypeVar("Function", bound=Callable[..., Any])
Option = Callable[[Any], Any]

_COMMON_BUT_MSGS: Final[tuple[Option, ...]] = (
    click.option("--size", type=SIZE, default="128B", show_default=True, help="Size of the messages"),
    click.option("--clients", type=click.IntRange(min=1), default=1, show_default=True, help="Concurrent clients"),
    click.option("--csv", "csv_file", type=click.Path(dir_okay=False, path_type=Path), help="Save the data as CSV"),
    progress_option,
)
_COMMON: Final[tuple[Option, ...]] = (
    click.option("--msgs", type=click.IntRange(min=1), default=100_000, show_default=True, help="Number of messages"),
    *_COMMON_BUT_MSGS,
)
_COMPARE: Final[tuple[Option, ...]] = (
    click.option("--against", metavar="URL|CONTEXT", help="Run on a second server too, in turn, and compare"),
    click.option(
        "--rounds", type=click.IntRange(min=1), help="Run so often; the median counts  [default: 1; 3 for two]"
    ),
)
_PACE: Final[tuple[Option, ...]] = (
    click.option("--sleep", type=DURATION, default=0, help="Sleep so long between publishes"),
    click.option(
        "--throughput", type=click.IntRange(min=0), default=0, help="At most so many messages a second in all"
    ),
    click.option("--duration", type=DURATION, default=0, help="Run for so long instead of for so many messages"),
)
_PAYLOAD: Final[tuple[Option, ...]] = (
    click.option(
        "--payload", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with the payload"
    ),
    click.option("--header", "-H", "headers", multiple=True, metavar="KEY:VALUE", help="Add headers to the messages"),
)
_PUBLISH: Final[tuple[Option, ...]] = (
    click.option("--multisubject", is_flag=True, help="A subject for each message: SUBJECT.0, SUBJECT.1 ..."),
    click.option("--multisubjectmax", type=click.IntRange(min=0), default=100_000, help="How many at most (0: no end)"),
    click.option("--multisubjectrandomize", is_flag=True, help="Use those subjects in random order"),
    *_PAYLOAD,
    *_PACE,
)
_BATCH: Final = click.option(
    "--batch", type=click.IntRange(min=1), default=BATCH_COUNT, show_default=True, help="Messages in a batch"
)
_STREAM: Final[tuple[Option, ...]] = (
    click.option(
        "--stream", default=STREAM, show_default=True, shell_complete=complete_stream, help="The stream to use"
    ),
    click.option("--create", is_flag=True, help="Make the stream first (readers: and fill it)"),
    click.option("--purge", is_flag=True, help="Empty the stream first"),
    click.option("--storage", type=click.Choice(["file", "memory"]), default="file", help="Storage of a new stream"),
    click.option("--replicas", type=click.IntRange(1, 5), default=1, help="Replicas of a new stream"),
    click.option("--maxbytes", type=SIZE, default="1GB", show_default=True, help="Maximum size of a new stream"),
    click.option("--cleanup", is_flag=True, help="Delete the stream afterwards"),
)
_DEDUP: Final[tuple[Option, ...]] = (
    click.option("--dedup", is_flag=True, help="Give each message an id, so that duplicates are dropped"),
    click.option("--dedupwindow", type=DURATION, default="2m", show_default=True, help="For how long ids are known"),
    click.option("--persistasync", is_flag=True, help="A new stream acknowledges before it has written"),
)
_SLEEP: Final = click.option("--sleep", type=DURATION, default=0, help="Sleep so long for each message")
_IDLE: Final = click.option(
    "--idle", type=DURATION, default="10s", show_default=True, help="Give up when nothing came for so long"
)
_CONSUMER: Final[tuple[Option, ...]] = (
    click.option("--consumer", default=CONSUMER, show_default=True, help="The durable consumer to use"),
    click.option("--acks", type=click.Choice(["explicit", "none", "all"]), default="explicit", show_default=True,
                 help="How the consumer wants acknowledgements"),
    click.option("--doubleack/--no-doubleack", default=False, help="Wait until each acknowledgement is confirmed"),
)  # fmt: skip
_FILTER: Final = click.option("--filter", "filters", multiple=True, metavar="SUBJECT", help="Only these subjects")


def _with(*options: Option) -> Callable[[Function], Function]:
    """Several options at once, listed in the order given."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@click.group("bench", cls=Noun)
def bench() -> None:
    """Measure a server, or two side by side.

    Rates, latency percentiles and a small chart; --json and --csv for machines. With --against URL the same runs on a
    second server, in turn, and the ratio is shown. Several clients are processes of their own.
    """


@bench.command("pub")
@click.argument("subject")
@_with(*_COMMON, *_COMPARE, *_PUBLISH, _BATCH)
@pass_settings
def core_pub(settings: Settings, /, **options: Any) -> None:
    """Publish core NATS messages."""
    _measure(settings, Kind.PUB, options)


@bench.command("sub")
@click.argument("subject")
@_with(*_COMMON, _BATCH, _IDLE)
@click.option("--multisubject", is_flag=True, help="Receive SUBJECT.* instead of SUBJECT")
@pass_settings
def core_sub(settings: Settings, /, **options: Any) -> None:
    """Receive core NATS messages; start it before `bench pub` on the same subject."""
    _measure(settings, Kind.SUB, options)


@click.group("service", cls=Noun)
def service() -> None:
    """Requests and their replies: start `serve`, then `request` on the same subject."""


bench.add_command(service)


@service.verb("request")
@click.argument("subject")
@_with(*_COMMON, *_COMPARE, *_PAYLOAD, *_PACE)
@pass_settings
def service_request(settings: Settings, /, **options: Any) -> None:
    """Send requests, each answered before the next."""
    _measure(settings, Kind.REQUEST, options)


@service.verb("serve")
@click.argument("subject")
@click.option(
    "--msgs", type=click.IntRange(min=0), default=0, show_default=True, help="End after so many requests (0: by Ctrl-C)"
)
@_with(*_COMMON_BUT_MSGS)
@click.option("--sleep", type=DURATION, default=0, help="Sleep so long before each reply")
@pass_settings
def service_serve(settings: Settings, /, **options: Any) -> None:
    """Answer requests, and show how many came when it ends: the clients are a queue group."""
    _measure(settings, Kind.SERVE, options)


@click.group("js", cls=Noun)
def js() -> None:
    """JetStream: publish, consume, fetch, read in order, get."""


bench.add_command(js)


class PublishKinds(Noun):
    """`bench js pub SUBJECT --batch 1000` without a kind is the older spelling, still used: async, or sync for 1."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A subject in place of a kind."""
        if args and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            one_at_a_time = "--batch=1" in args or any(pair == ("--batch", "1") for pair in pairwise(args))
            args = ["sync" if one_at_a_time else "async", *args]
        return super().resolve_command(ctx, args)


@click.group("pub", cls=PublishKinds)
def js_pub() -> None:
    """Publish JetStream messages: sync, async, in atomic batches or in a fast one."""


js.add_command(js_pub)


@js_pub.verb("sync")
@click.argument("subject")
@_with(*_COMMON, *_COMPARE, *_PUBLISH, *_STREAM, *_DEDUP)
@click.option("--batch", type=click.IntRange(1, 1), hidden=True, default=1)
@pass_settings
def js_pub_sync(settings: Settings, /, **options: Any) -> None:
    """Publish one message at a time, each acknowledged before the next."""
    _measure(settings, Kind.JS_SYNC, options)


@js_pub.verb("async")
@click.argument("subject")
@_with(*_COMMON, *_COMPARE, *_PUBLISH, _BATCH, *_STREAM, *_DEDUP)
@pass_settings
def js_pub_async(settings: Settings, /, **options: Any) -> None:
    """Publish in batches, whose acknowledgements are awaited together."""
    _measure(settings, Kind.JS_ASYNC, options)


@js_pub.verb("atomic", aliases=("batch",))
@click.argument("subject")
@_with(*_COMMON, *_COMPARE, *_PUBLISH, _BATCH, *_STREAM, *_DEDUP)
@pass_settings
def js_pub_atomic(settings: Settings, /, **options: Any) -> None:
    """Publish in batches that are stored together or not at all."""
    if options["batch"] > 1000:
        raise UsageError("an atomic batch holds at most 1,000 messages", hint="Give --batch 1000 or less.")
    _measure(settings, Kind.JS_ATOMIC, options)


@js_pub.verb("fast")
@click.argument("subject")
@_with(*_COMMON, *_COMPARE, *_PUBLISH, _BATCH)
@click.option(
    "--max-outstanding-acks",
    type=click.IntRange(1, 65_535),
    default=1,
    show_default=True,
    help="So many acknowledgements may be owed before it waits",
)
@_with(*_STREAM, *_DEDUP)
@pass_settings
def js_pub_fast(settings: Settings, /, **options: Any) -> None:
    """Publish one fast batch, acknowledged every so many messages: what was stored before a failure stays."""
    if options["batch"] > FLOW_ASKED_MAX:
        raise UsageError(
            f"a fast batch is acknowledged every {FLOW_ASKED_MAX:,} messages or more often",
            hint="Give a lower --batch.",
        )
    _measure(settings, Kind.JS_FAST, options)


@js.verb("consume")
@_with(*_COMMON, *_COMPARE, _BATCH, *_CONSUMER, _FILTER, *_STREAM, _IDLE, _SLEEP)
@pass_settings
def js_consume(settings: Settings, /, **options: Any) -> None:
    """Consume from a durable consumer that the clients share."""
    _measure(settings, Kind.CONSUME, options)


@js.verb("fetch")
@_with(*_COMMON, *_COMPARE, _BATCH, *_CONSUMER, _FILTER, *_STREAM, _IDLE, _SLEEP)
@pass_settings
def js_fetch(settings: Settings, /, **options: Any) -> None:
    """Fetch batches from a durable consumer that the clients share."""
    _measure(settings, Kind.FETCH, options)


@js.verb("ordered")
@_with(*_COMMON, *_COMPARE, _BATCH, _FILTER, *_STREAM, _IDLE, _SLEEP)
@pass_settings
def js_ordered(settings: Settings, /, **options: Any) -> None:
    """Read the stream in order; every client reads all of it."""
    _measure(settings, Kind.ORDERED, options)


@click.group("get", cls=Noun)
def js_get() -> None:
    """Get stored messages without a consumer."""


js.add_command(js_get)


@js_get.verb("sync")
@_with(*_COMMON, *_COMPARE, *_STREAM, _SLEEP)
@pass_settings
def js_get_sync(settings: Settings, /, **options: Any) -> None:
    """Get one message at a time by its sequence."""
    _measure(settings, Kind.GET, options)


@js_get.verb("batch")
@_with(*_COMMON, *_COMPARE, _BATCH, *_STREAM, _IDLE, _SLEEP)
@click.option("--filter", "filter_subject", metavar="SUBJECT", help="Only messages of this subject")
@pass_settings
def js_get_batch(settings: Settings, /, **options: Any) -> None:
    """Get batches by direct gets; every client gets all messages."""
    _measure(settings, Kind.GET_BATCH, options)


@click.group("kv", cls=Noun)
def kv() -> None:
    """Key-value buckets: put and get."""


bench.add_command(kv)


_BUCKET: Final[tuple[Option, ...]] = (
    click.option("--bucket", default=BUCKET, show_default=True, help="The bucket to use"),
    click.option("--randomize", type=click.IntRange(min=0), default=0, help="Random keys below this (0: in turn)"),
    click.option("--cleanup", is_flag=True, help="Delete the bucket afterwards"),
)


@kv.verb("put")
@_with(*_COMMON, *_COMPARE, *_BUCKET)
@click.option("--history", type=click.IntRange(1, 64), default=1, help="Values kept per key in a new bucket")
@click.option("--storage", type=click.Choice(["file", "memory"]), default="file", help="Storage of a new bucket")
@click.option("--replicas", type=click.IntRange(1, 5), default=1, help="Replicas of a new bucket")
@click.option("--maxbytes", type=SIZE, default="1GB", show_default=True, help="Maximum size of a new bucket")
@click.option("--purge", is_flag=True, help="Empty the bucket first")
@_with(*_PACE)
@pass_settings
def kv_put(settings: Settings, /, **options: Any) -> None:
    """Put values; the bucket is made when it is missing."""
    _measure(settings, Kind.KV_PUT, options)


@kv.verb("get")
@_with(*_COMMON, *_COMPARE, *_BUCKET, _SLEEP)
@pass_settings
def kv_get(settings: Settings, /, **options: Any) -> None:
    """Get values that `bench kv put` has put."""
    _measure(settings, Kind.KV_GET, options)


def _plan(kind: Kind, options: dict[str, Any]) -> Plan:
    randomize = int(options.get("randomize", 0))
    payload = options.get("payload")
    return Plan(
        kind=kind,
        subject=options.get("subject") or "",
        message_count=0 if options.get("duration") else options["msgs"],
        duration_s=options.get("duration", 0) / SECOND_NS,
        size_bytes=options["size"],
        client_count=options["clients"],
        batch_count=options.get("batch", BATCH_COUNT),
        outstanding_acks=options.get("max_outstanding_acks", 1),
        stream=options.get("stream", STREAM),
        consumer=options.get("consumer", CONSUMER),
        bucket=options.get("bucket", BUCKET),
        acks=options.get("acks", "explicit"),
        double_ack=options.get("doubleack", False),
        filters=[only] if (only := options.get("filter_subject")) else list(options.get("filters", ())),
        multi_subject=options.get("multisubject", False),
        multi_subject_max=randomize or options.get("multisubjectmax", 100_000),
        random_subject=bool(randomize) or options.get("multisubjectrandomize", False),
        payload=payload.read_bytes() if payload else b"",
        headers=pairs(options.get("headers", ()), ":", "--header"),
        dedup=options.get("dedup", False),
        run_id=f"{now_ns():x}",
        sleep_s=options.get("sleep", 0) / SECOND_NS,
        throughput=options.get("throughput", 0),
        idle_timeout_s=options.get("idle", 10 * SECOND_NS) / SECOND_NS,
    )


def _preparation(options: dict[str, Any]) -> Preparation:
    from jetspark.cli.bench_prepare import Preparation

    return Preparation(
        create=options.get("create", False),
        purge=options.get("purge", False),
        storage=options.get("storage", "file"),
        replica_count=options.get("replicas", 1),
        max_bytes=options.get("maxbytes", -1),
        dedup_window_ns=options.get("dedupwindow", 120 * SECOND_NS),
        persist_async=options.get("persistasync", False),
        history=options.get("history", 1),
        cleanup=options.get("cleanup", False),
    )


def _measure(settings: Settings, kind: Kind, options: dict[str, Any]) -> None:
    """Run a benchmark on one server or two, and show it."""
    from jetspark.cli import bench_report

    plan, wanted = _plan(kind, options), _preparation(options)
    if 0 < plan.message_count < plan.client_count:
        raise UsageError(f"{plan.client_count} clients cannot share {plan.message_count} messages")
    if plan.duration_s < 0:
        raise UsageError("--duration is less than nothing", hint="Give one like 10s.")
    if plan.duration_s and plan.multi_subject and not plan.multi_subject_max:
        raise UsageError("--duration needs a number of subjects", hint="Give --multisubjectmax, such as 1000.")
    targets = [effective(settings)]
    if options.get("against"):
        targets.append(_second(effective(settings), options["against"]))
    round_count = options.get("rounds") or (3 if len(targets) > 1 else 1)
    shows_progress = options["progress"] and not settings.json
    if not settings.json:
        note(f"Starting {bench_report.heading(plan)}")
    outcomes: list[list[Outcome]] = [[] for _ in targets]
    names = [""] * len(targets)
    for round_number in range(round_count):
        for place, target in enumerate(targets):
            label = (
                f"{kind}"
                if len(targets) == 1
                else f"{shown_servers(target.server or 'server')} round {round_number + 1}"
            )
            run_plan = replace(plan, connection=asdict(target), run_id=f"{plan.run_id}-{round_number}")
            outcome, names[place] = _run_once(run_plan, wanted, label, shows_progress)
            outcomes[place].append(outcome)
    sides = [
        bench_report.Side(shown_servers(target.server or DEFAULT_SERVER), name, done)
        for target, name, done in zip(targets, names, outcomes, strict=True)
    ]
    _show(settings, plan, sides, options["csv_file"])


def _second(first: Settings, against: str) -> Settings:
    """The other server: an address with the same credentials, or a context with its own."""
    if "://" in against or ":" in against:
        return replace(first, server=against)
    return effective(Settings(context=against, timeout=first.timeout))


def _run_once(plan: Plan, wanted: Preparation, label: str, shows_progress: bool) -> tuple[Outcome, str]:
    from jetspark.cli import bench_prepare, bench_run

    def fill(filling: Plan) -> None:
        with progress_bar("filling", filling.total_count, show=shows_progress) as bar:
            bench_run.run(filling, bar.move_to)

    # The context's settings are in the plan already: it is not applied a second time.
    ctx = click.Context(click.get_current_context().command, obj=Settings(**{**plan.connection, "no_context": True}))
    with connected(ctx) as connection:
        bench_prepare.prepare(connection, plan, wanted, fill)
        try:
            with progress_bar(label, plan.total_count or None, show=shows_progress) as bar:
                outcome = bench_run.run(plan, _estimating(bar, plan) if plan.duration_s else bar.move_to)
        except (JetsparkError, CliError) as error:
            if plan.kind is Kind.REQUEST and exit_code_of(error) == NOT_FOUND:
                hint = f"Start it first: jetspark bench service serve {plan.subject}"
                raise NotFound(f"nobody serves {plan.subject}", hint=hint) from error
            raise
        finally:
            bench_prepare.clean_up(connection, plan, wanted)
        server = connection.server_info
    name = "jetspark" if server.get("git_commit") == "jetspark" else "nats-server"
    return outcome, f"{name} {server.get('version', '')}"


def _estimating(bar: Bar, plan: Plan) -> Callable[[int], None]:
    """Moves a bar whose end is a time: how many it will have been is told by the rate so far."""
    clock = SystemClock()
    started_ns, told = clock.monotonic_ns(), 0

    def move(count: int) -> None:
        nonlocal told
        elapsed_s = max(1, clock.monotonic_ns() - started_ns) / SECOND_NS
        total = max(count, round(count * plan.duration_s / elapsed_s))
        # Not for every small change: a bar with a new total forgets how fast it was.
        if count > told or abs(total - told) > total / 10:
            told = total
            bar.set_total(total)
        bar.move_to(count)

    return move


def _show(settings: Settings, plan: Plan, sides: list[Side], csv_file: Path | None) -> None:
    from jetspark.cli import bench_report

    if settings.json:
        emit_json(bench_report.document(plan, sides))
    elif len(sides) == 1:
        bench_report.show_outcome(plan, sides[0].median)
    else:
        bench_report.show_comparison(plan, sides)
    if csv_file is None:
        return
    # Last: a file that cannot be written does not take what was measured with it.
    bench_report.write_csv(csv_file, plan.run_id, sides)
    if not settings.json:
        echo()
        echo(f"Saved metric data in csv file {csv_file}")
