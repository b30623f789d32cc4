"""Credentials, TLS and websockets, on both faces."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from jetspark.client import errors
from jetspark.client.aio import connect
from jetspark.client.credentials import crc16, decode_seed, nkey_credentials, parse_credentials_file
from jetspark.client.sync import connect as connect_sync

USER_PREFIX = 160


def make_seed(raw: bytes) -> str:
    """A user's seed, as `nk -gen user` writes it."""
    first = 144 | (USER_PREFIX >> 5)
    second = (USER_PREFIX & 31) << 3
    body = bytes([first, second]) + raw
    return base64.b32encode(body + crc16(body).to_bytes(2, "little")).decode().rstrip("=")


async def works(url: str, **options: Any) -> None:
    """Both faces connect and get an answer."""
    async with await connect(url, **options) as connection:
        await connection.flush()
        subscription = await connection.subscribe("x.>")
        await connection.publish("x.y", b"z" * 100_000)
        message = await subscription.next(5)
        assert message is not None
        assert len(message.data) == 100_000

    def blocking() -> None:
        with connect_sync(url, **options) as connection:
            subscription = connection.subscribe("x.>")
            connection.publish("x.y", b"z" * 100_000)
            message = subscription.next(5)
            assert message is not None
            assert len(message.data) == 100_000

    await asyncio.to_thread(blocking)


def test_an_nkey_seed_signs_what_its_public_key_verifies() -> None:
    seed = make_seed(bytes(range(32)))
    assert seed.startswith("SU")
    credentials = nkey_credentials(seed, "")
    assert credentials.public_key.startswith("U")
    assert credentials.sign is not None
    signature = base64.urlsafe_b64decode(credentials.sign(b"nonce") + "==")
    Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key().verify(signature, b"nonce")
    for bad in ("", "SUAAA", seed[:-1] + ("A" if seed[-1] != "A" else "B"), "U" + seed[1:]):
        with pytest.raises(errors.BadOptionError):
            decode_seed(bad)


@pytest.mark.long
async def test_nkey_authentication(make_server: Any, tmp_path: Path) -> None:
    seed = make_seed(b"k" * 32)
    public = nkey_credentials(seed, "").public_key
    server = make_server(config=f"authorization {{ users = [{{ nkey: {public} }}] }}", jetstream=False)
    await works(server.url, nkey_seed=seed)
    (tmp_path / "seed").write_text(seed + "\n")
    await works(server.url, nkey_seed_file=str(tmp_path / "seed"))
    with pytest.raises(errors.AuthorizationError):
        await connect(server.url, nkey_seed=make_seed(b"x" * 32))


def test_a_credentials_file_holds_a_jwt_and_a_seed() -> None:
    text = (
        "-----BEGIN NATS USER JWT-----\neyJ.a.b\n------END NATS USER JWT------\n\n"
        "************************* IMPORTANT *************************\n\n"
        "-----BEGIN USER NKEY SEED-----\nSUABC\n------END USER NKEY SEED------\n"
    )
    assert parse_credentials_file(text) == ("eyJ.a.b", "SUABC")
    with pytest.raises(errors.AuthorizationError):
        parse_credentials_file("nothing")


async def test_an_unreadable_credentials_file_is_told_at_once(url: str, tmp_path: Path) -> None:
    with pytest.raises(errors.AuthorizationError, match="cannot read"):
        await connect(url, credentials_file=str(tmp_path / "missing.creds"))


async def test_two_kinds_of_credentials_are_refused(url: str) -> None:
    with pytest.raises(errors.BadOptionError):
        await connect(url, token="a", user="b")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a self-signed certificate for localhost: cert.pem and key.pem."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    start = datetime(2020, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder


def trust(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "cert.pem"))


def tls_config(folder: Path, extra: str = "") -> str:
    return f'tls {{ cert_file: "{folder}/cert.pem", key_file: "{folder}/key.pem", {extra} }}'


@pytest.mark.long
async def test_tls_after_info(make_server: Callable[..., Any], certificate: Path) -> None:
    server = make_server(config=tls_config(certificate), jetstream=False)
    await works(server.url, tls=trust(certificate), tls_hostname="localhost")
    await works(f"tls://localhost:{server.port}", tls=trust(certificate))
    with pytest.raises(errors.SecureConnectionError):
        await connect(server.url, tls_hostname="localhost")
    with pytest.raises(errors.SecureConnectionError):
        await connect(server.url, tls=trust(certificate), tls_hostname="elsewhere")


@pytest.mark.long
async def test_tls_first(make_server: Callable[..., Any], certificate: Path) -> None:
    server = make_server(config=tls_config(certificate, "handshake_first: true"), jetstream=False)
    await works(server.url, tls=trust(certificate), tls_hostname="localhost", tls_first=True)


async def test_tls_wanted_of_a_server_without_it_is_refused(url: str) -> None:
    with pytest.raises(errors.SecureConnectionError, match="does not offer TLS"):
        await connect(url, tls=True)


@pytest.mark.long
async def test_tls_survives_a_reconnect(make_server: Callable[..., Any], certificate: Path) -> None:
    server = make_server(config=tls_config(certificate), jetstream=False)
    back = asyncio.Event()
    options: dict[str, Any] = {"tls": trust(certificate), "tls_hostname": "localhost"}
    async with await connect(server.url, on_reconnect=back.set, **options) as connection:
        server.restart()
        await asyncio.wait_for(back.wait(), 10)
        await connection.flush()


@pytest.mark.long
async def test_closing_a_tls_connection_closes_its_socket(make_server: Callable[..., Any], certificate: Path) -> None:
    server = make_server(config=tls_config(certificate), jetstream=False)
    connection = await connect(server.url, tls=trust(certificate), tls_hostname="localhost")
    assert sockets_to(server.port) == 1

    await connection.close()

    # asyncio closes TLS only when the server has said goodbye too; a loop that ends before leaves the socket behind.
    assert sockets_to(server.port) == 0


def sockets_to(port: int) -> int:
    """How many sockets of this process are connected to that port."""
    found = psutil.Process().net_connections("tcp")
    return sum(1 for one in found if one.raddr and one.raddr.port == port)


@pytest.mark.long
async def test_websocket(make_server: Callable[..., Any]) -> None:
    server = make_server(config='websocket { listen: "127.0.0.1:-1", no_tls: true }', jetstream=False)
    await works(f"ws://127.0.0.1:{server.websocket_port}", websocket_headers={"X-Test": "1"})
    with pytest.raises(errors.NoServersError):
        await connect(f"ws://127.0.0.1:{server.port}")


@pytest.mark.long
async def test_websocket_over_tls(make_server: Callable[..., Any], certificate: Path) -> None:
    config = f'websocket {{ listen: "127.0.0.1:-1", {tls_config(certificate)} }}'
    server = make_server(config=config, jetstream=False)
    await works(f"wss://127.0.0.1:{server.websocket_port}", tls=trust(certificate), tls_hostname="localhost")
