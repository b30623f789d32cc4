"""Reaching a server inside this process: no port, no address.

The client half does not know the server half; it asks the object it was given for a connected stream socket
(`connect_socket()`), one end of a pair whose other end the server serves.
"""

from __future__ import annotations

import socket
from typing import Any

from jetspark.client.errors import BadOptionError


def in_process_socket(server: Any) -> socket.socket:
    """Our end of a new connection to an embedded server, or to the handle of one that runs in a thread."""
    for candidate in (server, getattr(server, "server", None)):
        connect = getattr(candidate, "connect_socket", None)
        if connect is not None:
            try:
                made = connect()
            except RuntimeError as error:
                # As a port that nobody listens on any more.
                raise ConnectionRefusedError("the embedded server is not running") from error
            assert isinstance(made, socket.socket)
            return made
    raise BadOptionError(f"{type(server).__name__} is no embedded server: it has no connect_socket()")
