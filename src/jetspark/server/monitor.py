"""Monitoring over HTTP: nats-server's endpoints, served by aiohttp.

Decided here: which paths exist, what a wrong parameter answers, and how a document is written (two spaces, Go's
escapes). Not known here: what the documents say.
"""

from __future__ import annotations

import collections
import json
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from jetspark.broker.options import VERSION
from jetspark.server.connz import connz
from jetspark.server.dashboard.routes import Dashboard
from jetspark.server.dashboard.sampler import Sampler
from jetspark.server.healthz import healthz
from jetspark.server.jsz import jsz
from jetspark.server.listener import join_host_port, open_socket
from jetspark.server.metrics import CONTENT_TYPE, Metrics
from jetspark.server.observations import Observations
from jetspark.server.options import OptionsError
from jetspark.server.peersz import gatewayz, leafz, routez
from jetspark.server.query import BadQuery, Query
from jetspark.server.subsz import accountz, accstatz, subsz
from jetspark.server.tls import ssl_context
from jetspark.server.varz import varz

if TYPE_CHECKING:
    from jetspark.server.server import Server

_INDEX: Final = (
    ("varz", "General"),
    ("jsz", "JetStream"),
    ("connz", "Connections"),
    ("accountz", "Accounts"),
    ("accstatz", "Account Stats"),
    ("subsz", "Subscriptions"),
    ("routez", "Routes"),
    ("leafz", "LeafNodes"),
    ("gatewayz", "Gateways"),
    ("healthz", "Health Probe"),
    ("metrics", "Metrics"),
)
_STOP_TIMEOUT_S: Final = 1.0

Document = Callable[["Server", Query], dict[str, Any]]


class Monitor:
    """The HTTP side of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._counts: collections.Counter[str] = collections.Counter()
        self._runner: web.AppRunner | None = None
        self._sampler: Sampler | None = None
        self._dashboard: Dashboard | None = None
        observations = Observations()
        server.broker.observer = observations
        self._metrics = Metrics(server, observations)
        if server.options.dashboard.enabled:
            self._sampler = Sampler(server, observations)
            self._dashboard = Dashboard(server, self._sampler)
        self.host = ""
        self.port = 0
        self.secure_port = 0
        self.secure_context: ssl.SSLContext | None = None

    async def start(self) -> None:
        """Open the ports the options ask for; raises OSError."""
        options = self._server.options
        if not options.http_port and not options.https_port:
            return
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=_STOP_TIMEOUT_S)
        await self._runner.setup()
        self.host = options.http_host or options.host
        if options.http_port:
            self.port = await self._listen("http", options.http_port)
        if options.https_port:
            self.secure_port = await self._listen("https", options.https_port)
        if self._sampler is not None:
            self._sampler.start()

    async def _listen(self, scheme: str, port: int) -> int:
        assert self._runner is not None
        try:
            listening = open_socket(self.host, port)
        except OSError as error:
            raise OptionsError(f"Can't start monitoring: can't listen to the monitor port: {error}") from None
        options = self._server.options
        context = None
        if scheme == "https" and options.tls is not None:
            context = self.secure_context = ssl_context(options.tls, asks_clients=False)
        await web.SockSite(self._runner, listening, ssl_context=context).start()
        opened: int = listening.getsockname()[1]
        self._server.logger.info(f"Starting {scheme} monitor on {join_host_port(self.host, opened)}")
        return opened

    async def stop(self) -> None:
        if self._sampler is not None:
            await self._sampler.stop()
        if self._dashboard is not None:
            await self._dashboard.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _application(self) -> web.Application:
        base = "/" + self._server.options.http_base_path.strip("/")
        # Only the dashboard's forms send anything: a message as JSON text, which is longer than the message.
        application = web.Application(client_max_size=4 * self._server.options.max_payload_bytes + 65536)
        # Any method will do, as in nats-server: nothing is changed here.
        application.router.add_route("*", base, self._index)
        if base != "/":
            application.router.add_route("*", base + "/", self._index)
        prefix = base.rstrip("/")
        documents: dict[str, Document] = {
            "varz": lambda server, query: varz(server, self._counts),
            "connz": connz,
            "subsz": subsz,
            "subscriptionsz": subsz,
            "jsz": jsz,
            "accountz": accountz,
            "accstatz": accstatz,
            "routez": routez,
            "gatewayz": gatewayz,
            "leafz": leafz,
            "ipqueuesz": lambda server, query: {},
        }
        for name, document in documents.items():
            application.router.add_route("*", f"{prefix}/{name}", self._handler(name, document))
        application.router.add_route("*", f"{prefix}/healthz", self._health)
        application.router.add_route("*", f"{prefix}/raftz", _no_raft)
        application.router.add_get(f"{prefix}/metrics", self._metrics_text)
        if self._dashboard is not None:
            self._dashboard.register(application, f"{prefix}/dashboard")
        return application

    def _handler(self, name: str, document: Document) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.Response:
            self._counts[f"/{name}"] += 1
            try:
                body = document(self._server, Query(request.query))
            except BadQuery as error:
                return web.Response(status=400, text=str(error))
            return _json_response(body, indent=2)

        return handle

    async def _health(self, request: web.Request) -> web.Response:
        self._counts["/healthz"] += 1
        try:
            status, body = healthz(self._server, Query(request.query))
        except BadQuery as error:
            return web.Response(status=400, text=str(error))
        return _json_response(body, status=status)

    async def _metrics_text(self, request: web.Request) -> web.StreamResponse:
        """In chunks, while the rest is being written: of thousands of streams it is megabytes."""
        self._counts["/metrics"] += 1
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
        await response.prepare(request)
        if request.method != "HEAD":
            async for chunk in self._metrics.chunks(self._counts):
                await response.write(chunk)
        return response

    async def _index(self, request: web.Request) -> web.Response:
        self._counts["/"] += 1
        links = "\n".join(f'    <li><a href="./{name}">{title}</a> /{name}</li>' for name, title in _INDEX)
        if self._dashboard is not None:
            links = f'    <li><a href="./dashboard/">Dashboard</a> /dashboard/</li>\n{links}'
        page = f'<html lang="en">\n  <body>\n  <p>v{VERSION}</p>\n  <ul>\n{links}\n  </ul>\n  </body>\n</html>\n'
        return web.Response(text=page, content_type="text/html", charset="utf-8")


def _json_response(document: dict[str, Any], *, indent: int | None = None, status: int = 200) -> web.Response:
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(document, indent=indent, separators=separators, ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return web.Response(
        status=status,
        body=text.encode("utf-8", "replace"),
        headers={"Content-Type": "application/json", "Access-Control-Allow-Origin": "*"},
    )


async def _no_raft(request: web.Request) -> web.Response:
    return web.Response(status=404, text="No Raft nodes registered")
