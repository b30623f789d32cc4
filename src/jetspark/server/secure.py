"""TLS on a client's socket: nats-server's three ways to begin it.

Normally INFO is said in clear and the client starts the handshake after it. With `handshake_first` the handshake
comes before everything, or, with a fallback delay, when the client does not begin in time, after INFO. With
`allow_non_tls` the client's first byte decides. The bytes decide, so the handshake is run here on a memory buffer,
between the socket and the connection, rather than by the loop.
Not known here: certificates and contexts (`tls`), and what is said inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

from jetspark.server.describe import describe
from jetspark.server.options import TlsOptions
from jetspark.server.tls import certificate_names, is_pinned

if TYPE_CHECKING:
    from jetspark.server.auth import ServerGate
    from jetspark.server.connection import Connection
    from jetspark.server.edge import Edge

_HANDSHAKE_BYTE: Final = 0x16
_READ_BYTES: Final = 256 * 1024
REASON_TLS: Final = "TLS Handshake Failure"

# What the layer does with bytes.
_PLAIN: Final = 0
_SHAKING: Final = 1
_SECURE: Final = 2


class SecureLayer(asyncio.Protocol, asyncio.Transport):
    """The socket's protocol on one side, the connection's transport on the other."""

    def __init__(
        self, edge: Edge, gate: ServerGate, connection: Connection, options: TlsOptions, context: ssl.SSLContext
    ) -> None:
        asyncio.Transport.__init__(self)
        self._edge = edge
        self._gate = gate
        self._connection = connection
        self._options = options
        self._allows_plain = False
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._state = _PLAIN
        self._is_info_said = False
        # What was written during the handshake; it can only be encrypted afterwards.
        self._unsent: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def allow_plain(self) -> None:
        """Let a client that does not start a handshake go on in clear."""
        self._allows_plain = True

    # -- the socket's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not a check: uvloop's transports have the methods and not the base class.
        self._socket = cast(asyncio.Transport, transport)
        self._connection.attach(self)
        self._edge.opened(self._connection, "nats")
        if not self._options.handshake_first:
            self._say_info_in_clear()
        elif self._options.handshake_fallback_s > 0:
            self._timer = self._edge.loop.call_later(self._options.handshake_fallback_s, self._say_info_in_clear)
        else:
            self._await_handshake()

    def _say_info_in_clear(self) -> None:
        self._is_info_said = True
        self._edge.say_info(self._connection)
        self._await_handshake()

    def _await_handshake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._edge.loop.call_later(self._options.timeout_s, self._handshake_late)

    def _handshake_late(self) -> None:
        self._timer = None
        if self._state == _PLAIN and self._allows_plain:
            self._edge.start_clocks(self._connection)
        else:
            self._fail("handshake timeout")

    def data_received(self, data: bytes) -> None:
        if self._state == _PLAIN:
            if self._allows_plain and (self._timer is None or data[0] != _HANDSHAKE_BYTE):
                self._go_on_in_clear(data)
                return
            self._state = _SHAKING
            self._await_handshake()
        self._incoming.write(data)
        if self._state == _SHAKING and not self._shake():
            return
        self._read()

    def _go_on_in_clear(self, data: bytes) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._edge.start_clocks(self._connection)
        self._connection.data_received(data)

    def _shake(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError as error:
            self._flush()
            self._fail(error.reason or str(error))
            return False
        self._flush()
        self._state = _SECURE
        if not self._accept_peer():
            return False
        unsent, self._unsent = self._unsent, []
        for data in unsent:
            self.write(data)
        return True

    def _accept_peer(self) -> bool:
        """The handshake is done: look at the certificate, then greet."""
        certificate = self._tls.getpeercert(binary_form=True)
        if self._options.pinned_certs and (
            certificate is None or not is_pinned(certificate, self._options.pinned_certs)
        ):
            self._fail("certificate not pinned")
            return False
        if self._options.verify_and_map and certificate is not None:
            self._gate.present_certificate(self._connection.session, certificate_names(certificate))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_info_said:
            self._edge.say_info(self._connection)
        self._edge.start_clocks(self._connection)
        return True

    def _read(self) -> None:
        parts: list[bytes] = []
        is_ended = False
        try:
            while True:
                part = self._tls.read(_READ_BYTES)
                if not part:
                    is_ended = True
                    break
                parts.append(part)
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLZeroReturnError:
            is_ended = True
        except ssl.SSLError as error:
            self._fail(error.reason or str(error))
            return
        if parts:
            self._connection.data_received(b"".join(parts))
        if is_ended:
            self._edge.perform()
            self._socket.close()

    def _fail(self, reason: str) -> None:
        session = self._connection.session
        if not self._socket.is_closing():
            self._edge.logger.error(f"{describe(session)} - TLS handshake error: {reason}")
            session.close_reason = REASON_TLS
            self._socket.abort()

    def eof_received(self) -> None:
        self._connection.eof_received()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._connection.connection_lost(error)

    # -- the connection's side ---------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._state == _PLAIN:
            self._socket.write(data)
            return
        if self._state == _SHAKING:
            self._unsent.append(bytes(data))
            return
        self._tls.write(data)
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.write(self._outgoing.read())

    def close(self) -> None:
        if self._state == _SECURE and not self._socket.is_closing():
            # The peer has not said goodbye yet, which is an error to unwrap; our goodbye is all we owe.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._socket.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "cipher" and self._state == _SECURE:
            return self._tls.cipher()
        return self._socket.get_extra_info(name, default)
