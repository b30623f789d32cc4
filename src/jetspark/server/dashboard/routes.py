"""The dashboard's addresses: the page, its documents, its beat, its forms.

Decided here: who may have an answer (the server's users, when it has any; else whoever asks under a name of this
machine), what every answer forbids the browser (other hosts, inline script, frames), and what a change must prove: that
the operator allows changes, and that the request comes from this page and not from another one the viewer has open. Not
known here: what the documents say.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from aiohttp import web

from jetspark.server.dashboard import browse
from jetspark.server.dashboard.changes import CHANGES, BadForm, read_form, too_large
from jetspark.server.dashboard.documents import Views
from jetspark.server.dashboard.hosts import host_of, is_own, machine_name, refusal
from jetspark.server.dashboard.inner_client import LoginRefused, RequestFailed
from jetspark.server.dashboard.logins import Logins, TooManyGuesses, Viewer
from jetspark.server.dashboard.pipelines import pipelines
from jetspark.server.dashboard.sampler import Sampler

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream
    from jetspark.server.server import Server

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TYPES: Final = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
TOKEN_HEADER: Final = "X-Jetspark-Token"
_BEAT_TIMEOUT_S: Final = 20.0

Handler = Callable[[web.Request, Viewer], Awaitable[dict[str, Any]]]


class NotThere(Exception):
    """What was asked for does not exist, or not for this viewer."""


class Dashboard:
    """The dashboard of one server."""

    def __init__(self, server: Server, sampler: Sampler) -> None:
        self._server = server
        self._sampler = sampler
        self._logins = Logins(server)
        self._views = Views(server, sampler)
        # Only a page of this origin can read it, and a change must bring it along.
        self._token = secrets.token_urlsafe(24)
        self._beats: set[asyncio.Task[Any]] = set()
        self._machine = machine_name()

    def register(self, application: web.Application, prefix: str) -> None:
        """Add the addresses below `prefix`, which has no slash at its end."""
        router = application.router
        router.add_get(prefix, self._redirect)
        router.add_get(f"{prefix}/", self._static("index.html"))
        router.add_get(f"{prefix}/login", self._login)
        for file in resources.files(__package__).joinpath("static").iterdir():
            if file.name.rpartition(".")[2] in _TYPES:
                router.add_get(f"{prefix}/{file.name}", self._static(file.name))
        documents: dict[str, Handler] = {
            "session": self._session,
            "overview": self._overview,
            "streams": self._streams,
            "streams/{stream}": self._stream,
            "streams/{stream}/subjects": self._subjects,
            "streams/{stream}/messages": self._messages,
            "streams/{stream}/messages/{seq:[0-9]{1,19}}": self._message,
            "streams/{stream}/consumers": self._consumers,
            "streams/{stream}/consumers/{consumer}": self._consumer,
            "connections": self._connections,
            "connections/{cid:[0-9]{1,19}}": self._connection,
            "pipelines": self._pipelines,
        }
        for path, handler in documents.items():
            router.add_get(f"{prefix}/api/{_any_name(path)}", self._document(handler))
        router.add_get(f"{prefix}/api/events", self._events)
        for path in CHANGES:
            router.add_post(f"{prefix}/api/{_any_name(path)}", self._change(path))
        application.on_response_prepare.append(_forbid_below(prefix))

    async def close(self) -> None:
        beats, self._beats = self._beats, set()
        for task in beats:
            task.cancel()
        await self._logins.close()

    # -- who is asking -----------------------------------------------------------------------------------------------

    async def _viewer(self, request: web.Request) -> Viewer:
        if not self._server.is_ready:
            raise web.HTTPServiceUnavailable(text="The server is still starting.", headers=HEADERS)
        proof = request.headers.get("Authorization", "")
        try:
            viewer = await self._logins.viewer(proof, request.remote or "")
        except TooManyGuesses:
            later = {**HEADERS, "Retry-After": "5", "Cache-Control": "no-store"}
            raise web.HTTPTooManyRequests(
                text="Too many logins from this address: wait a little.", headers=later
            ) from None
        except LoginRefused as error:
            challenge = {"WWW-Authenticate": 'Basic realm="jetspark", charset="UTF-8"', "Cache-Control": "no-store"}
            raise web.HTTPUnauthorized(text=f"Log in: {error}", headers={**HEADERS, **challenge}) from None
        host = host_of(request.headers.get("Host", ""))
        # Credentials are the better proof: a browser keeps them for the name they were given under.
        is_proved = proof and self._server.options.is_auth_required
        if not is_proved and not is_own(host, self._own_names()):
            raise web.HTTPMisdirectedRequest(text=refusal(host), headers={**HEADERS, "Cache-Control": "no-store"})
        return viewer

    def _own_names(self) -> set[str]:
        """Names that are this server's by what the operator wrote; asked each time, since a reload may change them."""
        options = self._server.options
        written = (options.host, options.http_host, options.client_advertise, *options.dashboard.hosts)
        return {self._machine, *(host_of(name) for name in written)}

    async def _login(self, request: web.Request) -> web.StreamResponse:
        """Asks for a name even where silent users are let in."""
        if not request.headers.get("Authorization") and self._server.options.is_auth_required:
            raise web.HTTPUnauthorized(headers={**HEADERS, "WWW-Authenticate": 'Basic realm="jetspark"'})
        await self._viewer(request)
        raise web.HTTPFound("./", headers=HEADERS)

    # -- the page ----------------------------------------------------------------------------------------------------

    async def _redirect(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPMovedPermanently(f"{request.path}/", headers=HEADERS)

    def _static(self, name: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        # Read once: a few files of a few kilobytes, and an upgrade is a restart.
        body = resources.files(__package__).joinpath("static", name).read_bytes()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        kind = _TYPES[name.rpartition(".")[2]]

        async def handle(request: web.Request) -> web.StreamResponse:
            await self._viewer(request)
            headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": tag}
            if tag in request.headers.get("If-None-Match", ""):
                return web.Response(status=304, headers=headers)
            return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)

        return handle

    # -- documents ---------------------------------------------------------------------------------------------------

    def _document(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            viewer = await self._viewer(request)
            self._sampler.watch()
            try:
                return _answer(await handler(request, viewer))
            except NotThere as error:
                return _answer({"error": str(error)}, status=404)
            except (browse.BadFilter, ValueError) as error:
                return _answer({"error": str(error)}, status=400)

        return handle

    async def _session(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        return {**self._views.session(viewer), "token": self._token}

    async def _overview(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        return self._views.overview(viewer)

    async def _streams(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        query = request.query
        return self._views.streams(
            viewer, query.get("filter", ""), query.get("sort", "name"), _number(query.get("offset", "0"))
        )

    def _found(self, request: web.Request, viewer: Viewer) -> Stream:
        name = request.match_info["stream"]
        stream = self._views.stream_of(viewer, name)
        if stream is None:
            raise NotThere(f"There is no stream {name} in account {viewer.account.name}.")
        return stream

    def _readable(self, request: web.Request, viewer: Viewer) -> Stream:
        stream = self._found(request, viewer)
        if not viewer.may_ask(f"$JS.API.STREAM.MSG.GET.{stream.name}"):
            raise NotThere(f"{viewer.user} may not read messages of {stream.name}.")
        return stream

    async def _stream(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        return self._views.stream(viewer, self._found(request, viewer))

    async def _subjects(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        return await browse.subjects(self._readable(request, viewer), request.query.get("filter", ""))

    async def _messages(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        query = request.query
        return await browse.page(
            self._readable(request, viewer),
            query.get("subject", ""),
            _number(query.get("seq", "0")),
            newest_first=query.get("order", "newest") != "oldest",
            monotonic_ns=self._server.clock.monotonic_ns,
        )

    async def _message(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        seq = int(request.match_info["seq"])
        found = browse.message(self._readable(request, viewer), seq)
        if found is None:
            raise NotThere(f"There is no message {seq} (any more).")
        return found

    async def _consumers(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        query, stream = request.query, self._found(request, viewer)
        return self._views.consumers(
            viewer, stream, query.get("filter", ""), query.get("sort", "name"), _number(query.get("offset", "0"))
        )

    async def _consumer(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        stream, name = self._found(request, viewer), request.match_info["consumer"]
        consumer = self._views.consumer_of(viewer, stream, name)
        if consumer is None:
            raise NotThere(f"There is no consumer {name} of stream {stream.name}.")
        return self._views.consumer(consumer)

    async def _connections(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        query = request.query
        state = "closed" if query.get("state") == "closed" else "open"
        sort = query.get("sort", "cid")
        return self._views.connections(viewer, sort if sort in _CONNECTION_SORTS else "cid", state)

    async def _connection(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        cid = request.match_info["cid"]
        found = self._views.connection(viewer, cid)
        if found is None:
            raise NotThere(f"There is no connection {cid} (any more).")
        return found

    async def _pipelines(self, request: web.Request, viewer: Viewer) -> dict[str, Any]:
        return pipelines(viewer, self._server.clock.now_ns())

    # -- the beat ----------------------------------------------------------------------------------------------------

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: the figures after every look the sampler takes."""
        viewer = await self._viewer(request)
        headers = {
            **HEADERS,
            "Cache-Control": "no-store",
            "Content-Type": "text/event-stream",
            "X-Accel-Buffering": "no",
        }
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._beats.add(task)
        try:
            while not viewer.is_gone:
                viewer.used_ns = self._server.clock.monotonic_ns()
                self._sampler.watch()
                figures = json.dumps(self._views.figures(viewer), separators=(",", ":"))
                await response.write(f"event: beat\ndata: {figures}\n\n".encode())
                async with asyncio.timeout(_BEAT_TIMEOUT_S):
                    await self._sampler.next_pass()
        except (ConnectionError, TimeoutError):
            # The page was closed, or will connect again by itself.
            pass
        except asyncio.CancelledError:
            if task not in self._beats:
                # The server is stopping and says so by ending the answer.
                return response
            raise
        finally:
            self._beats.discard(task)
        return response

    # -- changes -----------------------------------------------------------------------------------------------------

    def _change(self, path: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        change = CHANGES[path]

        async def handle(request: web.Request) -> web.StreamResponse:
            viewer = await self._viewer(request)
            refusal = self._refusal(request)
            if refusal:
                return _answer({"error": refusal}, status=403)
            names = dict(request.match_info)
            try:
                if "stream" in names:
                    stream = self._found(request, viewer)
                    if "consumer" in names and names["consumer"] not in stream.consumers:
                        raise NotThere(f"There is no consumer {names['consumer']} of stream {stream.name}.")
                answer = await change(viewer, names, read_form(await request.read()))
            except NotThere as error:
                return _answer({"error": str(error)}, status=404)
            except web.HTTPRequestEntityTooLarge:
                return _answer({"error": f"this is too much: {too_large(viewer)}"}, status=413)
            except (BadForm, browse.BadFilter, ValueError) as error:
                return _answer({"error": str(error)}, status=400)
            except RequestFailed as error:
                return _answer({"error": str(error)}, status=409)
            self._server.logger.info(f"Dashboard: {viewer.user or 'anonymous'}: {request.path}: {answer['message']}")
            return _answer(answer)

        return handle

    def _refusal(self, request: web.Request) -> str:
        """Why this change must not be made, empty when it may."""
        if not self._server.options.dashboard.allow_changes:
            return "This dashboard is read-only: start the server with --dashboard_changes to allow changes."
        headers = request.headers
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return "This request comes from another site."
        origin = headers.get("Origin")
        if origin is not None and not self._is_ours(origin, headers.get("Host", "")):
            return "This request comes from another site."
        if not hmac.compare_digest(
            headers.get(TOKEN_HEADER, "").encode("utf-8", "surrogateescape"), self._token.encode()
        ):
            return "This page is older than the server: reload it."
        return ""

    def _is_ours(self, origin: str, host: str) -> bool:
        """The page's own address; behind a proxy that asks under another name, one the operator allowed."""
        try:
            place = urlsplit(origin).netloc
        except ValueError:
            return False
        return place.lower() == host.lower() or host_of(place) in map(host_of, self._server.options.dashboard.hosts)


_CONNECTION_SORTS: Final = frozenset(
    {"cid", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "last", "idle", "uptime", "rtt"}
)


def _any_name(path: str) -> str:
    """Names may hold braces too, which the router leaves out unless it is told."""
    return path.replace("{stream}", "{stream:[^/]+}").replace("{consumer}", "{consumer:[^/]+}")


def _forbid_below(prefix: str) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """What is not there, wrong methods and mistakes are answered by the library, which forbids nothing."""

    async def forbid(request: web.Request, response: web.StreamResponse) -> None:
        if request.path == prefix or request.path.startswith(f"{prefix}/"):
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)

    return forbid


def _number(text: str) -> int:
    """A number of a query; raises ValueError that says which word was none."""
    if not text.isdecimal() or len(text) > 19:
        raise ValueError(f"{text!r} is not a number")
    return int(text)


def _answer(document: dict[str, Any], *, status: int = 200) -> web.Response:
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    headers = {**HEADERS, "Cache-Control": "no-store"}
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
