"""The open port: accepts clients and gives each a connection.

Decided here: how a host and port become one listening socket, and that a port of -1 is any free one.
Not known here: what is said on the connections.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from typing import Final

# As many as the kernel allows to wait between two turns of the loop; thousands of clients may come back at once.
_BACKLOG: Final = 4096
_PORT_MAX: Final = 65535
_PORT_FREE: Final = -1


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket on the first address the host stands for; raises OSError."""
    if not _PORT_FREE <= port <= _PORT_MAX:
        # The C library would take the lower 16 bits of it.
        raise OSError(f"listen tcp: address {port}: invalid port")
    wanted_port = 0 if port == _PORT_FREE else port
    is_any = host in ("", "0.0.0.0", "::")
    found = socket.getaddrinfo(
        None if is_any and host != "0.0.0.0" else host, wanted_port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        reason = str(error.strerror).lower()
        raise OSError(error.errno, f"listen tcp {join_host_port(host, port)}: bind: {reason}") from None
    return listening


class Listener:
    """One listening socket in a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, factory: Callable[[], asyncio.Protocol]) -> None:
        self._loop = loop
        self._factory = factory
        self._server: asyncio.Server | None = None
        self.host = ""
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        listening = open_socket(host, port)
        self.host, self.port = host or "0.0.0.0", listening.getsockname()[1]
        self._server = await self._loop.create_server(self._factory, sock=listening, backlog=_BACKLOG)

    def stop(self) -> None:
        """Accept nobody from now on; connections already made are not touched."""
        if self._server is not None:
            self._server.close()
            self._server = None


def split_host_port(text: str, default_port: int) -> tuple[str, int]:
    """An address with or without a port, where 0 and -1 stand for none; raises ValueError in Go's words."""
    host, colon, port = text.rpartition(":")
    if text.startswith("["):
        if "]" not in text:
            raise ValueError(f"address {text}: missing ']' in address")
        if text.endswith("]"):
            return text[1:-1], default_port
        host = host.strip("[]")
    elif not colon:
        return text, default_port
    elif ":" in host:
        raise ValueError(f"address {text}: too many colons in address")
    if re.fullmatch("[+-]?[0-9]+", port) is None:
        raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax')
    return host, default_port if int(port) in (0, _PORT_FREE) else int(port)


def join_host_port(host: str, port: int) -> str:
    """An address as it is written: brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
