"""TLS: when the handshake happens, and who gets through it."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from pathlib import Path

import nats
import pytest
from tests.server.certificates import Authority, Certificate
from tests.server.harness import Running, StartServer, WireClient

from jetspark.server.options import OptionsError


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.issue("server")


def config(certificate: Certificate, more: str = "", top: str = "") -> str:
    return f"""
    port: -1
    {top}
    tls {{ cert_file: "{certificate.cert_file}", key_file: "{certificate.key_file}", timeout: 1
           {more} }}
    """


async def upgrade(client: WireClient, context: ssl.SSLContext) -> None:
    await client.writer.start_tls(context, server_hostname="127.0.0.1")


async def secure_login(running: Running, context: ssl.SSLContext, **options: object) -> WireClient:
    client = await running.connect()
    await upgrade(client, context)
    client.connect(**options)
    await client.until_pong()
    return client


async def test_info_comes_in_clear_and_the_rest_is_encrypted(
    start_server: StartServer, authority: Authority, certificate: Certificate
) -> None:
    running = await start_server(config=config(certificate))
    client = await running.connect()
    assert client.info["tls_required"] is True

    await upgrade(client, authority.client_context())
    client.connect()
    client.send("SUB a 1", "PUB a 200000", "x" * 200_000)

    assert await client.line() == "MSG a 1 200000"
    assert len(await client.line()) == 200_000
    connection = next(iter(running.server.edge.connections.values()))
    assert connection.tls_info()["tls_version"] == "1.3"


async def test_another_vendors_client_connects(
    start_server: StartServer, authority: Authority, certificate: Certificate
) -> None:
    running = await start_server(config=config(certificate))

    client = await nats.connect(f"tls://127.0.0.1:{running.server.port}", tls=authority.client_context())
    subscription = await client.subscribe("a")
    await client.publish("a", b"hello")

    assert (await subscription.next_msg(5)).data == b"hello"
    await client.close()


async def test_a_client_that_stays_in_clear_is_closed(start_server: StartServer, certificate: Certificate) -> None:
    running = await start_server(config=config(certificate))
    client = await running.connect()

    client.connect()

    assert "PONG" not in await client.rest()
    assert await running.log.wait_for("TLS handshake error")
    assert await running.log.wait_for("Client connection closed: TLS Handshake Failure")


async def test_a_client_that_never_begins_is_closed_in_time(
    start_server: StartServer, certificate: Certificate
) -> None:
    running = await start_server(config=config(certificate, "timeout: 0.1"))
    client = await running.connect()

    assert await client.rest() == []
    assert await running.log.wait_for("handshake timeout")


async def test_with_handshake_first_nothing_is_said_in_clear(
    start_server: StartServer, authority: Authority, certificate: Certificate
) -> None:
    running = await start_server(config=config(certificate, "handshake_first: true"))

    client = await running.connect(ssl=authority.client_context())
    client.connect()

    assert client.info["tls_required"] is True
    assert await client.until_pong() == []


@pytest.mark.long
@pytest.mark.parametrize("is_first", [True, False])
async def test_with_a_fallback_both_kinds_of_clients_connect(
    start_server: StartServer, authority: Authority, certificate: Certificate, is_first: bool
) -> None:
    running = await start_server(config=config(certificate, 'handshake_first: "200ms"'))

    if is_first:
        client = await running.connect(ssl=authority.client_context())
    else:
        client = await running.connect()
        await upgrade(client, authority.client_context())
    client.connect()

    assert await client.until_pong() == []


async def test_where_clear_is_allowed_the_first_byte_decides(
    start_server: StartServer, authority: Authority, certificate: Certificate
) -> None:
    running = await start_server(config=config(certificate, top="allow_non_tls: true"))
    plain = await running.login()
    assert plain.info["tls_available"] is True
    assert "tls_required" not in plain.info

    secure = await secure_login(running, authority.client_context())

    plain.send("SUB a 1")
    await plain.until_pong()
    secure.send("PUB a 2", "hi")
    assert await plain.line() == "MSG a 1 2"


async def test_verify_demands_a_certificate_of_the_authority(
    start_server: StartServer, authority: Authority, certificate: Certificate, tmp_path: Path
) -> None:
    running = await start_server(config=config(certificate, f'ca_file: "{authority.file}", verify: true'))
    stranger = Authority(tmp_path).issue("stranger")

    known = await secure_login(running, authority.client_context(authority.issue("known")))
    assert known.info["tls_verify"] is True
    for context in (authority.client_context(), authority.client_context(stranger)):
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            await secure_login(running, context)


async def test_a_certificate_may_stand_for_a_user(
    start_server: StartServer, authority: Authority, certificate: Certificate
) -> None:
    running = await start_server(
        config=config(
            certificate,
            f'ca_file: "{authority.file}", verify_and_map: true',
            top="authorization { users: [{user: joe@example.org, permissions: {publish: mine}}] }",
        )
    )

    joe = await secure_login(running, authority.client_context(authority.issue("joe", email="joe@example.org")))
    joe.send("PUB yours 0", "")
    assert await joe.until_pong() == ["-ERR 'Permissions Violation for Publish to \"yours\"'"]

    client = await running.connect()
    await upgrade(client, authority.client_context(authority.issue("ann", email="ann@example.org")))
    client.connect()
    assert await client.rest() == ["-ERR 'Authorization Violation'"]


async def test_only_pinned_certificates_pass(
    start_server: StartServer, authority: Authority, certificate: Certificate
) -> None:
    pinned, other = authority.issue("pinned"), authority.issue("other")
    running = await start_server(
        config=config(certificate, f'ca_file: "{authority.file}", verify: true, pinned_certs: ["{pinned.pin}"]')
    )

    await secure_login(running, authority.client_context(pinned))
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        await secure_login(running, authority.client_context(other))
    assert await running.log.wait_for("certificate not pinned")


async def test_the_login_clock_starts_after_the_handshake(
    start_server: StartServer, authority: Authority, certificate: Certificate
) -> None:
    running = await start_server(config=config(certificate, top="authorization { token: t, timeout: 0.1 }"))
    client = await running.connect()
    await upgrade(client, authority.client_context())

    assert await client.rest() == ["-ERR 'Authentication Timeout'"]


async def test_monitoring_may_be_encrypted_too(
    start_server: StartServer, authority: Authority, certificate: Certificate
) -> None:
    running = await start_server(config=config(certificate, top="https_port: -1"))

    reader, writer = await asyncio.open_connection(
        "127.0.0.1", running.server.https_port, ssl=authority.client_context()
    )
    writer.write(b"GET /varz HTTP/1.0\r\n\r\n")
    body = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()

    assert json.loads(body)["tls_required"] is True


async def test_a_missing_certificate_is_an_error_at_the_start(start_server: StartServer, tmp_path: Path) -> None:
    missing = Certificate(tmp_path, "missing")

    with pytest.raises(OptionsError, match="error parsing X509 certificate/key pair"):
        await start_server(config=config(missing))


async def test_a_reload_takes_a_renewed_certificate_and_keeps_the_old_one_when_the_new_is_bad(
    start_server: StartServer, authority: Authority, tmp_path: Path
) -> None:
    first, second = authority.issue("first"), authority.issue("second")
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(first.cert_file, cert_file)
    shutil.copy(first.key_file, key_file)
    running = await start_server(config=f'port: -1, tls {{ cert_file: "{cert_file}", key_file: "{key_file}" }}')

    async def shown() -> bytes:
        client = await running.connect()
        await upgrade(client, authority.client_context())
        found: bytes = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return found

    before = await shown()
    shutil.copy(second.cert_file, cert_file)
    with pytest.raises(OptionsError, match="certificate/key pair"):
        running.server.reload(running.server.options)
    kept = await shown()
    shutil.copy(second.key_file, key_file)
    running.server.reload(running.server.options)
    after = await shown()

    assert kept == before
    assert after != before
