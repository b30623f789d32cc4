"""Somebody who asks the dashboard over HTTP, and what he finds there."""

from __future__ import annotations

import base64
from typing import Any

import aiohttp
from tests.server.harness import Running

from jetspark.server.dashboard.inner_client import InnerClient
from jetspark.server.embedded import embedded_options
from jetspark.server.options import Options


class Visitor:
    """Asks the dashboard as a page would, or as something else would."""

    def __init__(self, session: aiohttp.ClientSession, server: Running) -> None:
        self._session = session
        self.base = f"{server.server.monitor_url}/dashboard/"

    async def get(self, path: str, user: str = "", password: str = "") -> tuple[int, Any]:
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {login}"} if user or password else {}
        async with self._session.get(f"{self.base}{path}", headers=headers, allow_redirects=False) as response:
            is_json = response.content_type == "application/json"
            return response.status, await response.json() if is_json else await response.text()

    async def post(self, path: str, form: Any, **headers: str) -> tuple[int, Any]:
        async with self._session.post(f"{self.base}api/{path}", json=form, headers=headers) as response:
            return response.status, await response.json()

    async def change(self, path: str, form: Any, **headers: str) -> tuple[int, Any]:
        """A change as the page itself asks for it."""
        _, session = await self.get("api/session")
        return await self.post(path, form, **{"X-Jetspark-Token": session["token"], **headers})

    async def headers(self, path: str) -> dict[str, str]:
        async with self._session.get(f"{self.base}{path}") as response:
            return dict(response.headers)


def options(*, allow_changes: bool = False) -> Options:
    chosen = embedded_options(http_port=0)
    chosen.dashboard.allow_changes = allow_changes
    return chosen


async def api(running: Running, verb: str, document: Any = None, **login: str) -> dict[str, Any]:
    """A request to the JetStream API by a client that logs in for it."""
    client = await InnerClient.login(running.server, {"user": login.get("user", ""), "pass": login.get("password", "")})
    try:
        return await client.request_json(f"$JS.API.{verb}", document)
    finally:
        await client.close()


async def add_stream(running: Running, name: str, subject: str, **login: str) -> None:
    await api(running, f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject]}, **login)


async def publish(running: Running, subject: str, *bodies: bytes) -> None:
    client = await InnerClient.login(running.server, {})
    for body in bodies:
        await client.request(subject, body)
    await client.close()
