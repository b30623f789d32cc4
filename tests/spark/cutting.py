"""A proxy that loses a connection at a chosen moment: when something named has been sent, before it is answered."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self
from urllib.parse import urlsplit


class CuttingProxy:
    """Passes everything on; cuts the first connection that sends `mark`, once the server has been given it."""

    def __init__(self, server_url: str, mark: bytes) -> None:
        address = urlsplit(server_url)
        assert address.hostname is not None
        assert address.port is not None
        self._server_address = (address.hostname, address.port)
        self._mark = mark
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.was_cut = False

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        for one in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        # Until the listener is closed.
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server_address)
                self._sockets += [client, server]
                threading.Thread(target=self._pass_up, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_down, args=(server, client), daemon=True).start()

    def _pass_up(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._mark in data and not self.was_cut:
                    self.was_cut = True
                    # Nothing goes down any more, so the answer cannot overtake the cut.
                    client.shutdown(socket.SHUT_RDWR)
                server.sendall(data)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _pass_down(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
