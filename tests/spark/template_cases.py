"""Each template under trial: what is published for it, and what must come of that, computed in plain Python.

Times of events are in the past, out of order by less than the template's `late`, and spread over hours, so that windows
close and state is dropped within a trial. Amounts are quarters, so that a sum does not depend on its order.
"""

from __future__ import annotations

import abc
import hashlib
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from pyarrow import parquet

from jetspark.client.sync import JetStream
from tests.spark import template_rows as rows
from tests.spark.template_rows import Headers, Message, Stored

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000
SECOND_US = 1_000_000
MINUTE_US, HOUR_US = 60 * SECOND_US, 3600 * SECOND_US
LATE_US = 9 * MINUTE_US
COUNTRIES = ("de", "fr", "new york", "a.b", "", None, "São Paulo", "x" * 230, "*", "u\x1fv", " ", "日本", "c>d")
NOT_DOCUMENTS = (b"", b"no document", b"\xff\xfe\x00", b"[1]", b"null", b'{"id": ')
ARCHIVED = "Jetspark-Archived-"
Streams = Mapping[str, Sequence[Stored]]


def time_text(time_us: int) -> str:
    """A moment as a document has it, to the microsecond."""
    return (BEGIN + timedelta(microseconds=time_us - BEGIN_US)).isoformat().replace("+00:00", "Z")


def document_of(data: bytes) -> dict[str, Any]:
    """A payload's fields; none when it is no document."""
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def subject_value(value: str | None) -> str:
    """A value as a word of a subject."""
    return re.sub(r"[\s\x00.*>]+", "_", value or "", flags=re.ASCII)[:200] or "_"


def quarters(rng: Random) -> float | None:
    """An amount: small, large, exactly at the limit, or none."""
    return rng.choice((rng.randint(0, 8000) / 4, rng.randint(0, 8000) / 4, 1000.0, None))


class Case(abc.ABC):
    """One template."""

    template = ""
    definition = ""
    """The copied file that is changed, and the functions in it whose rows go to a sink."""
    sinks: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    streams: ClassVar[Mapping[str, str]] = {}
    tables: tuple[str, ...] = ()

    @abc.abstractmethod
    def messages(self, rng: Random, count: int) -> list[Message]:
        """What is published, in this order."""

    @abc.abstractmethod
    def expected(self, streams: Streams) -> Counter[Any]:
        """What must come of it."""

    @abc.abstractmethod
    def found(self, project: Path, jetstream: JetStream) -> Counter[Any]:
        """What has come of it."""

    def prepare(self, project: Path) -> None:
        """Change the copied file."""
        path = project / self.definition
        text = path.read_text("utf-8")
        for old, new in self.edits:
            assert text.count(old) == 1, f"{self.template}: {old!r} is not in {self.definition} once"
            text = text.replace(old, new)
        path.write_text(self._wrapped(text), "utf-8")

    def _wrapped(self, text: str) -> str:
        lines = text.splitlines()
        last = max(number for number, line in enumerate(lines) if line.startswith(("import ", "from ")))
        added = ["from tests.spark import template_definitions", *self.wrappings()]
        return "\n".join([*lines[: last + 1], *added, *lines[last + 1 :], ""])

    def wrappings(self) -> list[str]:
        """The lines that wrap what the file uses."""
        wrapped = ["read_messages = template_definitions.limited(read_messages)"]
        return wrapped + [f"{name} = template_definitions.disturbed({name})" for name in self.sinks]


def order_messages(rng: Random, count: int) -> list[Message]:
    """Orders with every odd value."""
    made = []
    for number in range(count):
        if rng.random() < 0.01:
            data = rng.choice(NOT_DOCUMENTS)
        else:
            document: dict[str, Any] = {"id": number, "country": rng.choice(COUNTRIES), "amount": quarters(rng)}
            for name in rng.choices(("id", "country", "amount"), k=rng.random() < 0.02):
                del document[name]
            data = json.dumps(document).encode()
        subject = rng.choice(("ORDERS.new", "ORDERS.new", "ORDERS.changed.late", "ORDERS.späť", "ORDERS.a=b%c"))
        headers: Headers = (("Source", b"shop %d" % (number % 7)), ("Source", b"again")) if number % 3 == 0 else ()
        if number % 5 == 0:
            headers += (("Nats-Msg-Id", b"order %d" % number),)
        made.append(Message("ORDERS", subject, data, headers))
    return made


class Archive(Case):
    """Every message with everything that it has."""

    template, definition = "archive", "transformations/archive.py"
    streams: ClassVar[Mapping[str, str]] = {"ORDERS": "ORDERS.>"}
    tables = ("archive",)

    def messages(self, rng: Random, count: int) -> list[Message]:
        return order_messages(rng, count)

    def expected(self, streams: Streams) -> Counter[Any]:
        return Counter(
            (
                *("ORDERS", one.subject, one.sequence, one.time_us, one.time_ns, one.headers, one.data),
                time_text(one.time_us)[:10],
                ".".join(one.subject.split(".")[:2]),
            )
            for one in streams["ORDERS"]
        )

    def found(self, project: Path, jetstream: JetStream) -> Counter[Any]:
        table = rows.read_table(project / "state" / "warehouse" / "archive")
        for row in table:
            row["headers"] = tuple((one["key"], one["value"]) for one in row["headers"])
            row["day"] = str(row["day"])
        names = ("stream", "subject", "sequence", "timestamp", "timestamp_ns", "headers", "data", "day", "subject_key")
        return rows.picked(table, *names)


class FanOut(Case):
    """Each order to the subjects whose rules it meets."""

    template, definition, sinks = "fan-out", "transformations/routes.py", ("fan_out",)
    streams: ClassVar[Mapping[str, str]] = {"ORDERS": "ORDERS.>", "ROUTED": "ROUTED.>"}

    def messages(self, rng: Random, count: int) -> list[Message]:
        return order_messages(rng, count)

    def expected(self, streams: Streams) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for one in streams["ORDERS"]:
            document = document_of(one.data)
            subjects = []
            if (document.get("amount") or 0) > 1000:
                subjects.append(f"ROUTED.big.{subject_value(document.get('country'))}")
            if document.get("country") == "de":
                subjects.append("ROUTED.home")
            for subject in subjects or ["ROUTED.rest"]:
                found[subject, rows.without_id(one.headers), one.data] += 1
        return found

    def found(self, project: Path, jetstream: JetStream) -> Counter[Any]:
        stored = rows.read_stream(jetstream, "ROUTED")
        return Counter((one.subject, rows.without_id(one.headers), one.data) for one in stored)


class Dedupe(Case):
    """The first of the orders with the same number."""

    template, definition, sinks = "dedupe", "transformations/dedupe.py", ("as_messages",)
    streams: ClassVar[Mapping[str, str]] = {"ORDERS": "ORDERS.>", "CLEAN": "CLEAN.>"}

    def messages(self, rng: Random, count: int) -> list[Message]:
        made = []
        for number in range(count):
            known = rng.randint(max(0, number - 100_000), number) if rng.random() < 0.4 else number
            document: dict[str, Any] = {
                "id": rng.choice((known, known, str(known), f"no {known}")),
                "version": number % 1000,
            }
            if rng.random() < 0.02:
                document["id"] = rng.choice((None, "", " ", "ä\x1f"))
            if rng.random() < 0.01:
                del document["id"]
            data = rng.choice(NOT_DOCUMENTS) if rng.random() < 0.01 else json.dumps(document).encode()
            made.append(Message("ORDERS", rng.choice(("ORDERS.new", "ORDERS.again")), data))
        return made

    def expected(self, streams: Streams) -> Counter[Any]:
        first: dict[str, Stored] = {}
        for one in streams["ORDERS"]:
            number = document_of(one.data).get("id")
            first.setdefault(hashlib.sha256(one.data).hexdigest() if number is None else str(number), one)
        return Counter((f"CLEAN.{one.subject}", one.data) for one in first.values())

    def found(self, project: Path, jetstream: JetStream) -> Counter[Any]:
        return Counter((one.subject, one.data) for one in rows.read_stream(jetstream, "CLEAN"))


class Join(Case):
    """Orders with their shipments within the hour, by the times in the documents."""

    template, definition = "join", "transformations/shipped.py"
    streams: ClassVar[Mapping[str, str]] = {"ORDERS": "ORDERS.>", "SHIPMENTS": "SHIPMENTS.>"}
    tables = ("shipped",)
    edits = (
        ("amount DOUBLE", "amount DOUBLE, at TIMESTAMP"),
        ("carrier STRING", "carrier STRING, at TIMESTAMP"),
        ('late="10 minutes"', 'late="10 minutes", time="at"'),
    )

    def messages(self, rng: Random, count: int) -> list[Message]:
        events: list[tuple[int, Message]] = []

        def add(at_us: int, stream: str, document: dict[str, Any]) -> None:
            text = json.dumps({**document, "at": time_text(at_us)}).encode()
            data = rng.choice(NOT_DOCUMENTS) if rng.random() < 0.005 else text
            events.append((at_us + rng.randrange(LATE_US), Message(stream, f"{stream}.new", data)))

        number = 0
        while len(events) < count:
            at_us, number = BEGIN_US + 6 * HOUR_US * len(events) // count, number + 1
            # Some numbers come again, and some orders have none.
            known = rng.choice((None, rng.randint(1, number))) if rng.random() < 0.04 else number
            add(at_us, "ORDERS", {"id": known, "country": rng.choice(COUNTRIES), "amount": quarters(rng)})
            for _ in range(rng.choice((0, 1, 1, 1, 2))):
                after_us = rng.choice(
                    (rng.randrange(HOUR_US), rng.randrange(HOUR_US), 0, HOUR_US, HOUR_US + 1, -1, 2 * HOUR_US, -HOUR_US)
                )
                add(at_us + after_us, "SHIPMENTS", {"id": known, "carrier": rng.choice(("bike", "ship", None))})
        events.sort(key=lambda event: event[0])
        return [message for _, message in events[:count]]

    def expected(self, streams: Streams) -> Counter[Any]:
        sent: defaultdict[int, list[tuple[int, Any, int]]] = defaultdict(list)
        for one in streams["SHIPMENTS"]:
            document = document_of(one.data)
            if document.get("id") is not None:
                sent[document["id"]].append((rows.micros(document["at"]), document["carrier"], one.time_us))
        found: Counter[Any] = Counter()
        for one in streams["ORDERS"]:
            order = document_of(one.data)
            for at_us, carrier, sent_us in sent[order["id"]] if order.get("id") is not None else ():
                if 0 <= at_us - rows.micros(order["at"]) <= HOUR_US:
                    found[order["id"], order["country"], order["amount"], carrier, one.time_us, sent_us] += 1
        return found

    def found(self, project: Path, jetstream: JetStream) -> Counter[Any]:
        table = rows.read_table(project / "state" / "warehouse" / "shipped")
        return rows.picked(table, "id", "country", "amount", "carrier", "ordered", "sent")


class Aggregate(Case):
    """Orders by the minute and country, in the table and in the stream."""

    template, definition, sinks = "aggregate", "transformations/per_minute.py", ("as_messages",)
    streams: ClassVar[Mapping[str, str]] = {"ORDERS": "ORDERS.>", "STATISTICS": "STATISTICS.>"}
    tables = ("per_minute",)
    edits = (("amount DOUBLE", "amount DOUBLE, at TIMESTAMP"), ('by=["country"]', 'by=["country"], time="at"'))

    def messages(self, rng: Random, count: int) -> list[Message]:
        made = []
        for number in range(count):
            at_us = BEGIN_US + 3 * HOUR_US * number // count - rng.randrange(LATE_US)
            country = rng.choice(COUNTRIES) if rng.random() < 0.2 else f"c{rng.randrange(150)}"
            document = {"country": country, "amount": quarters(rng), "at": time_text(at_us)}
            data = rng.choice(NOT_DOCUMENTS) if rng.random() < 0.01 else json.dumps(document).encode()
            made.append(Message("ORDERS", "ORDERS.new", data))
        return made

    def expected(self, streams: Streams) -> Counter[Any]:
        windows: defaultdict[tuple[int, str | None], list[float | None]] = defaultdict(list)
        newest_us = 0
        for one in streams["ORDERS"]:
            document = document_of(one.data)
            if "at" in document:
                at_us = rows.micros(document["at"])
                newest_us = max(newest_us, at_us)
                windows[at_us // MINUTE_US * MINUTE_US, document["country"]].append(document["amount"])
        found: Counter[Any] = Counter()
        for (begin_us, country), amounts in windows.items():
            # Spark has watermarks in milliseconds.
            if begin_us + MINUTE_US <= newest_us // 1000 * 1000 - 10 * MINUTE_US:
                known = [amount for amount in amounts if amount is not None]
                row = (begin_us, begin_us + MINUTE_US, country, len(amounts), sum(known) if known else None)
                found.update((place, *row) for place in ("table", "stream"))
        return found

    def found(self, project: Path, jetstream: JetStream) -> Counter[Any]:
        names = ("window_start", "window_end", "country", "orders", "amount")
        table = rows.picked(rows.read_table(project / "state" / "warehouse" / "per_minute"), *names, first="table")
        documents = []
        for one in rows.read_stream(jetstream, "STATISTICS"):
            document = document_of(one.data)
            times = {name: rows.micros(document[name]) for name in names[:2] if name in document}
            documents.append({**document, **times})
        return table + rows.picked(documents, *names, first="stream")


class AckLatency(Case):
    """Figures of ack samples by the minute, by the times in the samples."""

    template, definition = "ack-latency", "transformations/ack_latency.py"
    streams: ClassVar[Mapping[str, str]] = {"METRICS": "$JS.EVENT.METRIC.CONSUMER.ACK.>"}
    tables = ("ack_times",)
    edits = (
        (
            'read_messages(spark, "METRICS")',
            'read_messages(spark, "METRICS").withColumn('
            '"timestamp", F.get_json_object(F.col("data").cast("string"), "$.timestamp").cast("timestamp"))',
        ),
        (
            "from pyspark import pipelines as dp",
            "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as F",
        ),
    )
    kind = "io.nats.jetstream.metric.v1.consumer_ack"

    def messages(self, rng: Random, count: int) -> list[Message]:
        made = []
        for number in range(count):
            at_us = BEGIN_US + 2 * HOUR_US * number // count - rng.randrange(55 * SECOND_US)
            stream, consumer = rng.choice(("ORDERS", "EVENTS")), f"worker-{rng.randrange(3)}"
            document = {
                "type": self.kind if rng.random() < 0.97 else "io.nats.jetstream.advisory.v1.max_deliver",
                "id": f"{number:022d}", "timestamp": time_text(at_us).replace("Z", "789Z") if at_us % SECOND_US else
                time_text(at_us), "stream": stream, "consumer": consumer, "consumer_seq": number + 1,
                "stream_seq": number + 1, "ack_time": rng.randrange(1, 30_000_000_000),
                "deliveries": rng.choice((1, 1, 1, 2, 5)),
            }  # fmt: skip
            data = rng.choice(NOT_DOCUMENTS) if rng.random() < 0.01 else json.dumps(document).encode()
            made.append(Message("METRICS", f"$JS.EVENT.METRIC.CONSUMER.ACK.{stream}.{consumer}", data))
        return made

    def expected(self, streams: Streams) -> Counter[Any]:
        windows: defaultdict[tuple[int, str, str], list[dict[str, Any]]] = defaultdict(list)
        newest_us = 0
        for one in streams["METRICS"]:
            sample = document_of(one.data)
            if sample.get("type") == self.kind:
                at_us = rows.micros(sample["timestamp"])
                newest_us = max(newest_us, at_us)
                windows[at_us // MINUTE_US * MINUTE_US, sample["stream"], sample["consumer"]].append(sample)
        found: Counter[Any] = Counter()
        for (begin_us, stream, consumer), samples in windows.items():
            if begin_us + MINUTE_US <= newest_us // 1000 * 1000 - MINUTE_US:
                times = sorted(sample["ack_time"] / 1_000_000 for sample in samples)
                parts = [times[max(0, math.ceil(part * len(times)) - 1)] for part in (0.5, 0.95, 0.99)]
                again = sum(sample["deliveries"] > 1 for sample in samples)
                whole = (begin_us, begin_us + MINUTE_US, stream, consumer, len(times))
                found[*whole, *parts, times[-1], again] += 1
        return found

    def found(self, project: Path, jetstream: JetStream) -> Counter[Any]:
        table = rows.read_table(project / "state" / "warehouse" / "ack_times")
        names = ("window_start", "window_end", "stream", "consumer", "samples")
        return rows.picked(table, *names, "median_ms", "p95_ms", "p99_ms", "longest_ms", "redelivered")


def order_rows(streams: Streams) -> list[dict[str, Any]]:
    """Orders as the templates that parse them have them."""
    found = []
    for one in streams["ORDERS"]:
        document = document_of(one.data)
        fields = {name: document.get(name) for name in ("id", "country", "amount")}
        found.append({"subject": one.subject, "sequence": one.sequence, "timestamp": one.time_us, **fields})
    return found


ORDER_NAMES = ("subject", "sequence", "timestamp", "id", "country", "amount")


class Orders(Case):
    """Orders as a table, a view of it, and the big ones as messages."""

    template, definition, sinks = "orders", "transformations/orders.py", ("as_messages",)
    streams: ClassVar[Mapping[str, str]] = {"ORDERS": "ORDERS.>", "ALERTS": "ALERTS.>"}
    tables = ("orders",)

    def messages(self, rng: Random, count: int) -> list[Message]:
        return order_messages(rng, count)

    def expected(self, streams: Streams) -> Counter[Any]:
        orders = order_rows(streams)
        found = rows.picked(orders, *ORDER_NAMES, first="table")
        amounts: defaultdict[str | None, list[float | None]] = defaultdict(list)
        for order in orders:
            amounts[order["country"]].append(order["amount"])
            if (order["amount"] or 0) > 1000:
                subject = f"ALERTS.{subject_value(order['country'])}"
                # A document has times to the millisecond, which is Spark's default.
                sent = {**order, "timestamp": order["timestamp"] // 1000 * 1000}
                found["alert", subject, *(sent[name] for name in ORDER_NAMES)] += 1
        for country, some in amounts.items():
            known = [amount for amount in some if amount is not None]
            found["view", country, len(some), sum(known) if known else None] += 1
        return found

    def found(self, project: Path, jetstream: JetStream) -> Counter[Any]:
        warehouse = project / "state" / "warehouse"
        found = rows.picked(rows.read_table(warehouse / "orders"), *ORDER_NAMES, first="table")
        view = rows.table_rows(parquet.read_table(warehouse / "by_country"))
        found += rows.picked(view, "country", "orders", "amount", first="view")
        for one in rows.read_stream(jetstream, "ALERTS"):
            document = document_of(one.data)
            if "timestamp" in document:
                document["timestamp"] = rows.micros(document["timestamp"])
            found["alert", one.subject, *(document.get(name) for name in ORDER_NAMES)] += 1
        return found


class Lakehouse(Case):
    """Orders as a Delta table."""

    template, definition = "lakehouse", "transformations/lake.py"
    streams: ClassVar[Mapping[str, str]] = {"ORDERS": "ORDERS.>"}

    def messages(self, rng: Random, count: int) -> list[Message]:
        return order_messages(rng, count)

    def expected(self, streams: Streams) -> Counter[Any]:
        return rows.picked(order_rows(streams), *ORDER_NAMES)

    def found(self, project: Path, jetstream: JetStream) -> Counter[Any]:
        from deltalake import DeltaTable

        table = DeltaTable(str(project / "lake" / "orders")).to_pyarrow_table()
        return rows.picked(rows.table_rows(table), *ORDER_NAMES)


class Replay(Case):
    """A stream into an archive by one program, and back by another one, in order."""

    template, programs = "replay", ("archive.py", "replay.py")
    streams: ClassVar[Mapping[str, str]] = {"ORDERS": "ORDERS.>"}

    def messages(self, rng: Random, count: int) -> list[Message]:
        return order_messages(rng, count)

    def prepare(self, project: Path) -> None:
        for name in self.programs:
            (project / name).write_text(self._wrapped((project / name).read_text("utf-8")), "utf-8")

    def wrappings(self) -> list[str]:
        return [
            "from jetspark.spark.pipelines import archiving",
            "archiving.read_messages = template_definitions.limited(archiving.read_messages)",
            "archiving.replay_rows = template_definitions.disturbed(archiving.replay_rows)",
        ]

    def expected(self, streams: Streams) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for one in streams["ORDERS"]:
            second, rest_ns = divmod(one.time_ns, 1_000_000_000)
            text = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns:09d}Z"
            own = tuple((f"{ARCHIVED}{key}" if key == "Nats-Msg-Id" else key, value) for key, value in one.headers)
            added = (("Time", text), ("Stream", "ORDERS"), ("Sequence", str(one.sequence)))
            found[one.subject, one.data, own + tuple((f"{ARCHIVED}{key}", text.encode()) for key, text in added)] += 1
        return found

    def found(self, project: Path, jetstream: JetStream) -> Counter[Any]:
        found: Counter[Any] = Counter()
        before = 0
        for one in rows.read_stream(jetstream, "ORDERS"):
            headers = rows.without_id(one.headers)
            found[one.subject, one.data, headers] += 1
            sequence = int(dict(headers).get(f"{ARCHIVED}Sequence", b"0"))
            if sequence <= before:
                found["out of order", before, sequence] += 1
            before = sequence
        return found


CASES: dict[str, type[Case]] = {
    case.template: case for case in (AckLatency, Aggregate, Archive, Dedupe, FanOut, Join, Lakehouse, Orders, Replay)
}
