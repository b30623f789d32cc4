"""Tracing: what a connection calls when it publishes and when a message is processed.

Give `connect(telemetry=OpenTelemetry())` and the trace goes with the message in its headers: a span for each publish,
and for each message handled by a callback or a `processing` block a span that continues the sender's trace.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, Protocol

from jetspark.client.core.message import MessageCore
from jetspark.client.errors import BadOptionError
from jetspark.client.headers import Headers, HeadersLike


class Telemetry(Protocol):
    """What can be given as the `telemetry` of a connection."""

    def publishing(self, subject: str, headers: Headers) -> None:
        """A message is about to be published; headers may be added."""
        ...

    def processing(self, message: MessageCore) -> AbstractContextManager[Any]:
        """A message is processed inside this context."""
        ...


def traced_headers(telemetry: Telemetry, subject: str, headers: HeadersLike | None) -> Headers:
    """The user's headers with what the tracer adds."""
    made = Headers(headers or ())
    telemetry.publishing(subject, made)
    return made


def processing(telemetry: Telemetry | None, message: MessageCore) -> AbstractContextManager[Any]:
    """The tracer's context for a message; nothing without a tracer."""
    return nullcontext() if telemetry is None else telemetry.processing(message)


class OpenTelemetry:
    """Tracing with OpenTelemetry, by its conventions for messaging. Needs the extra `[otel]`.

    `connect(telemetry=OpenTelemetry())` uses the tracer provider of the process, unless you give another one.
    """

    def __init__(self, tracer_provider: Any = None) -> None:
        try:
            propagate: Any = import_module("opentelemetry.propagate")
            trace: Any = import_module("opentelemetry.trace")
        except ImportError:
            raise BadOptionError("tracing needs OpenTelemetry: pip install 'jetspark[otel]'") from None
        self._propagate = propagate
        self._kinds = trace.SpanKind
        self._tracer = trace.get_tracer("jetspark", tracer_provider=tracer_provider)

    def publishing(self, subject: str, headers: Headers) -> None:
        """A producer span; its context is added to the headers."""
        attributes = {
            "messaging.system": "nats",
            "messaging.operation.type": "send",
            "messaging.destination.name": subject,
        }
        with self._tracer.start_as_current_span(f"send {subject}", kind=self._kinds.PRODUCER, attributes=attributes):
            carrier: dict[str, str] = {}
            self._propagate.inject(carrier)
            for name, value in carrier.items():
                headers.set(name, value)

    def processing(self, message: MessageCore) -> AbstractContextManager[Any]:
        """A consumer span that continues the trace of the sender."""
        subject = message.subject
        attributes: dict[str, str | int] = {
            "messaging.system": "nats",
            "messaging.operation.type": "process",
            "messaging.destination.name": subject,
            "messaging.message.body.size": len(message.data),
        }
        context = self._propagate.extract({name.lower(): value for name, value in message.headers.items()})
        span: AbstractContextManager[Any] = self._tracer.start_as_current_span(
            f"process {subject}", context=context, kind=self._kinds.CONSUMER, attributes=attributes
        )
        return span
