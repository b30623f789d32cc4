"""What the dashboard's forms do: publish, purge, delete, unpin.

Decided here: what a form must say, in which request of the JetStream API it ends, and what is answered. Every change
is made as the viewer's own client would make it. Whether changes are allowed at all is decided in `routes`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from jetspark.protocol import headers as header_block
from jetspark.protocol.subjects import is_literal
from jetspark.server.dashboard.browse import parse_filter
from jetspark.server.dashboard.logins import Viewer

Form = dict[str, Any]
_HEADERS_MAX: Final = 100


class BadForm(Exception):
    """Something the form says cannot be done; the message says what and why."""


def read_form(body: bytes) -> Form:
    """What a page sent; raises BadForm."""
    try:
        form = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadForm(f"the form cannot be read: {error}") from None
    if not isinstance(form, dict):
        raise BadForm("a form is a JSON object")
    return form


def too_large(viewer: Viewer) -> str:
    return f"this server takes {viewer.payload_bytes_max:,} bytes at most"


async def publish(viewer: Viewer, names: dict[str, str], form: Form) -> dict[str, Any]:
    """One message. Answers which stream took it, or that it went to whoever listened."""
    subject, body = _text(form, "subject"), _text(form, "body", needed=False)
    if not is_literal(subject.encode()):
        raise BadForm(f"{subject!r} is not a subject to publish to: words between dots, without * and >")
    if subject.startswith("$"):
        raise BadForm(f"{subject!r} is one of the server's own subjects")
    pairs = _headers(form.get("headers"))
    data = body.encode()
    size = len(data) + (len(header_block.build(pairs)) if pairs else 0)
    if size > viewer.payload_bytes_max:
        raise BadForm(f"the message has {size:,} bytes; {too_large(viewer)}")
    stream = viewer.account.interest.route(subject.encode()).stream
    if stream is None:
        await viewer.client.publish(subject, data, pairs)
        return {"stored": False, "message": f"Sent. No stream listens on {subject}, so it was not stored."}
    if stream.config.no_ack:
        await viewer.client.publish(subject, data, pairs)
        return {"stored": False, "message": f"Sent to stream {stream.name}, which acknowledges nothing."}
    _, payload = await viewer.client.request(subject, data, pairs)
    return {"stored": True, "message": "Stored.", "ack": _document(payload)}


async def purge(viewer: Viewer, names: dict[str, str], form: Form) -> dict[str, Any]:
    """Messages of a stream: all, those of a subject, those below a sequence, or all but the newest."""
    stream = names["stream"]
    request: dict[str, Any] = {}
    if form.get("filter"):
        request["filter"] = _text(form, "filter")
        parse_filter(request["filter"])
    for name in ("seq", "keep"):
        value = form.get(name)
        if value in (None, "", 0):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise BadForm(f"{name} is a whole number above 0, not {value!r}")
        request[name] = value
    if "seq" in request and "keep" in request:
        raise BadForm("give a sequence or a number of messages to keep, not both")
    answer = await viewer.client.request_json(f"$JS.API.STREAM.PURGE.{stream}", request)
    count = answer.get("purged", 0)
    return {"message": f"{count} messages purged from {stream}.", "purged": count}


async def delete_stream(viewer: Viewer, names: dict[str, str], form: Form) -> dict[str, Any]:
    stream = names["stream"]
    _confirmed(form, stream)
    await viewer.client.request_json(f"$JS.API.STREAM.DELETE.{stream}")
    return {"message": f"Stream {stream} deleted."}


async def delete_message(viewer: Viewer, names: dict[str, str], form: Form) -> dict[str, Any]:
    stream, seq = names["stream"], int(names["seq"])
    await viewer.client.request_json(f"$JS.API.STREAM.MSG.DELETE.{stream}", {"seq": seq})
    return {"message": f"Message {seq} deleted from {stream}."}


async def delete_consumer(viewer: Viewer, names: dict[str, str], form: Form) -> dict[str, Any]:
    stream, consumer = names["stream"], names["consumer"]
    _confirmed(form, consumer)
    await viewer.client.request_json(f"$JS.API.CONSUMER.DELETE.{stream}.{consumer}")
    return {"message": f"Consumer {consumer} deleted."}


async def unpin(viewer: Viewer, names: dict[str, str], form: Form) -> dict[str, Any]:
    stream, consumer = names["stream"], names["consumer"]
    await viewer.client.request_json(f"$JS.API.CONSUMER.UNPIN.{stream}.{consumer}", {"group": _text(form, "group")})
    return {"message": f"{consumer} is open to another client."}


CHANGES: Final[dict[str, Callable[[Viewer, dict[str, str], Form], Awaitable[dict[str, Any]]]]] = {
    "publish": publish,
    "streams/{stream}/purge": purge,
    "streams/{stream}/delete": delete_stream,
    "streams/{stream}/messages/{seq:[0-9]{1,19}}/delete": delete_message,
    "streams/{stream}/consumers/{consumer}/delete": delete_consumer,
    "streams/{stream}/consumers/{consumer}/unpin": unpin,
}


def _text(form: Form, name: str, *, needed: bool = True) -> str:
    value = form.get(name, "")
    if not isinstance(value, str) or (needed and not value):
        raise BadForm(f"{name} is missing")
    _check_writable(value, name)
    return value


def _check_writable(text: str, what: str) -> None:
    """JSON can spell half a character; bytes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadForm(f"{what} cannot be written as UTF-8") from None


def _confirmed(form: Form, name: str) -> None:
    if form.get("confirm") != name:
        raise BadForm(f"type {name} to confirm")


def _headers(value: object) -> list[tuple[bytes, bytes]]:
    pairs: list[tuple[bytes, bytes]] = []
    for item in value if isinstance(value, list) else []:
        if not isinstance(item, list) or len(item) != 2 or not all(isinstance(part, str) for part in item):
            raise BadForm("headers are pairs of a name and a value")
        name, text = item
        if not name or any(character <= " " or character == ":" or character > "~" for character in name):
            raise BadForm(f"{name!r} is not a header's name: letters, digits and dashes")
        if any(character in "\r\n\0" for character in text):
            raise BadForm(f"the value of header {name} has a line break in it")
        _check_writable(text, f"the value of header {name}")
        pairs.append((name.encode(), text.encode()))
    if len(pairs) > _HEADERS_MAX:
        raise BadForm(f"more than {_HEADERS_MAX} headers")
    return pairs


def _document(payload: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(payload)
    if "error" in answer:
        raise BadForm(str(answer["error"].get("description", "refused")))
    return answer
