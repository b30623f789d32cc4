"""What a server tells about itself: asked at its monitoring address, or by its name through the system account.

Decided here: which of the two a target means, and how the same question is put in each. Not known here: what becomes of
the answers.
"""

from __future__ import annotations

import base64
import re
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec

from jetspark.cli.context import Settings
from jetspark.cli.errors import NO_CONNECTION, CliError, NotFound, UsageError

if TYPE_CHECKING:
    from jetspark.sync import Connection

DEFAULT_PORT: Final = 8222
# What an option is called in an address, where that differs from a request.
_IN_ADDRESS: Final = {"subscriptions": "subs", "consumer": "consumers"}


class Monitor(Protocol):
    """Somebody who can be asked for `varz`, `connz` and the like."""

    def get(self, path: str, **options: Any) -> dict[str, Any]:
        """One document."""


class HttpMonitor:
    """The monitoring address of one server."""

    def __init__(self, url: str, settings: Settings) -> None:
        self.url = url
        self._timeout_s = settings.timeout_s
        self._headers: dict[str, str] = {}
        if settings.user and settings.password:
            login = base64.b64encode(f"{settings.user}:{settings.password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"

    def get(self, path: str, **options: Any) -> dict[str, Any]:
        """One document."""
        query = {
            _IN_ADDRESS.get(name, name): "true" if value is True else value
            for name, value in options.items()
            if value is not False
        }
        url = f"{self.url}/{path}" + (f"?{urlencode(query)}" if query else "")
        # Only http and https come this far, see `monitor_url`.
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                found = msgspec.json.decode(answer.read())
        except (OSError, msgspec.DecodeError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            hint = "Start the server with -m 8222, or give the address: jetspark top http://HOST:PORT"
            raise CliError(f"no monitoring at {url}: {reason}", hint=hint, exit_code=NO_CONNECTION) from None
        if not isinstance(found, dict):
            raise CliError(f"{url} is not a NATS server's monitoring")
        return found


class SystemMonitor:
    """One server by its name, asked through the system account: the connection has to be of a user of that."""

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self._connection = connection

    def get(self, path: str, **options: Any) -> dict[str, Any]:
        """One document."""
        from jetspark.client.errors import NoRespondersError, RequestTimeoutError

        # Every server hears this, and only the one of that name answers.
        wanted = {**options, "server_name": self.name, "exact_match": True}
        try:
            reply = self._connection.request(f"$SYS.REQ.SERVER.PING.{path.upper()}", msgspec.json.encode(wanted))
        except NoRespondersError:
            hint = (
                "Connect as a user of the system account, or give the monitoring address: jetspark top http://HOST:PORT"
            )
            raise CliError("the system account does not answer here", hint=hint) from None
        except RequestTimeoutError:
            raise NotFound(f"no server {self.name} answers") from None
        answer = msgspec.json.decode(reply.data, type=dict)
        if "error" in answer:
            raise CliError(f"{self.name} refuses to tell {path}: {answer['error'].get('description', '')}")
        found: dict[str, Any] = answer.get("data") or {}
        return found


def names_a_server(target: str | None) -> bool:
    """A word alone, as `nats top` takes it; everything else is an address or a port."""
    return bool(target) and not re.search(r"[:/]|^\d+$", target or "")


def monitor_url(target: str | None, settings: Settings) -> str:
    """`http://host:port` of an address, a port, or the server that is connected to with the usual port."""
    if not target:
        first = (settings.server or "127.0.0.1").split(",")[0]
        host = urlsplit(first if "://" in first else f"nats://{first}").hostname or "127.0.0.1"
        return f"http://{host}:{DEFAULT_PORT}"
    if target.isdigit():
        return f"http://127.0.0.1:{target}"
    url = target if "://" in target else f"http://{target}"
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"{target} is not a monitoring address", hint="Give one like http://127.0.0.1:8222.")
    return url.rstrip("/")
