"""A server on real sockets: greeting, limits, time, and ends of connections."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.server.harness import StartServer

from jetspark.server.embedded import embedded_options
from jetspark.server.options import SECOND_NS, Options, OptionsError


async def test_a_client_is_greeted_with_info(start_server: StartServer) -> None:
    running = await start_server()

    client = await running.connect()

    assert client.info["server_id"] == running.server.server_id
    assert client.info["port"] == running.server.port
    assert client.info["headers"] is True
    assert client.info["client_ip"] == "127.0.0.1"
    assert "jetstream" not in client.info


async def test_messages_go_from_publisher_to_subscriber(start_server: StartServer) -> None:
    running = await start_server()
    subscriber = await running.login()
    subscriber.send("SUB greet.* 7")
    await subscriber.until_pong()
    publisher = await running.login()

    publisher.send("PUB greet.joe 5", "hello")

    assert await subscriber.line() == "MSG greet.joe 7 5"
    assert await subscriber.line() == "hello"


async def test_many_connections_in_one_turn_are_all_answered(start_server: StartServer) -> None:
    running = await start_server()
    clients = [await running.connect() for _ in range(50)]

    for client in clients:
        client.connect()
        client.send("SUB all 1", "PING")

    assert [await client.line() for client in clients] == ["PONG"] * 50
    clients[0].send("PUB all 2", "hi")
    assert [await client.line() for client in clients] == ["MSG all 1 2"] * 50


async def test_the_log_tells_when_clients_come_and_go(start_server: StartServer) -> None:
    running = await start_server()
    client = await running.login(name="app", lang="test", version="1.0")

    await client.close()

    line = await running.log.wait_for("Client connection closed")
    assert "Client connection created" in await running.log.wait_for("cid:1")
    assert line.endswith('cid:1 - "v1.0:test:app" - Client connection closed: Client Closed')


async def test_one_connection_too_many_is_told_and_closed(start_server: StartServer) -> None:
    running = await start_server(config="max_connections: 1\nport: -1\n")
    first = await running.login()

    second = await running.connect()

    assert await second.rest() == ["-ERR 'maximum connections exceeded'"]
    assert await first.until_pong() == []


async def test_a_protocol_error_closes_after_its_error_is_sent(start_server: StartServer) -> None:
    running = await start_server()
    client = await running.login()

    client.send("NONSENSE")

    assert await client.rest() == ["-ERR 'Unknown Protocol Operation'"]


async def test_a_payload_over_the_limit_closes(start_server: StartServer) -> None:
    running = await start_server(config="port: -1\nmax_payload: 10\n")
    client = await running.login()

    client.send("PUB a 11", "01234567890")

    assert client.info["max_payload"] == 10
    assert await client.rest() == ["-ERR 'Maximum Payload Violation'"]


async def test_a_silent_client_is_asked_and_then_closed_as_stale(start_server: StartServer) -> None:
    running = await start_server(config='port: -1\nping_interval: "50ms"\nping_max: 2\n')
    client = await running.login()

    lines = await client.rest()

    assert [line for line in lines if not line.startswith("INFO")] == ["PING", "PING", "-ERR 'Stale Connection'"]
    assert running.server.edge.stale_connections == 1


async def test_a_client_that_answers_is_not_stale_and_its_round_trip_is_known(start_server: StartServer) -> None:
    running = await start_server(config='port: -1\nping_interval: "40ms"\nping_max: 1\n')
    client = await running.login()

    answered = 0
    while answered < 4:
        line = await client.line()
        if line == "PING":
            client.send("PONG")
            answered += 1

    session = next(iter(running.server.edge.connections.values())).session
    assert session.rtt_ns > 0


async def test_a_client_that_does_not_log_in_is_told_and_closed(start_server: StartServer) -> None:
    running = await start_server(config="port: -1\nauthorization { token: s3cret, timeout: 0.1 }\n")

    client = await running.connect()

    assert client.info["auth_required"] is True
    assert await client.rest() == ["-ERR 'Authentication Timeout'"]


async def test_a_client_that_does_not_read_is_cut_off_at_max_pending(start_server: StartServer) -> None:
    options = embedded_options(jetstream=False)
    options.max_pending_bytes, options.max_payload_bytes = 2_000_000, 1_000_000
    running = await start_server(options)
    slow = await running.login()
    slow.send("SUB big 1")
    await slow.until_pong()
    slow.reader._transport.pause_reading()
    publisher = await running.login()

    for _ in range(60):
        publisher.send("PUB big 500000", "x" * 500_000)
        await publisher.until_pong()

    assert "MaxPending of 2000000 Exceeded" in await running.log.wait_for("Slow Consumer Detected")
    assert running.server.edge.slow_consumers == 1
    line = await running.log.wait_for("Slow Consumer (Pending Bytes)")
    assert "Client connection closed" in line


@pytest.mark.long
async def test_a_client_that_takes_nothing_for_the_write_deadline_is_cut_off(start_server: StartServer) -> None:
    options = embedded_options(jetstream=False)
    options.write_deadline_ns = SECOND_NS // 5
    running = await start_server(options)
    slow = await running.login()
    slow.send("SUB big 1")
    await slow.until_pong()
    slow.reader._transport.pause_reading()
    publisher = await running.login()

    for _ in range(30):
        publisher.send("PUB big 500000", "x" * 500_000)
        await publisher.until_pong()

    assert "WriteDeadline of 0.2s exceeded" in await running.log.wait_for("Slow Consumer Detected")


@pytest.mark.long
async def test_a_client_that_is_closed_and_takes_nothing_does_not_stay(start_server: StartServer) -> None:
    options = embedded_options(jetstream=False)
    options.write_deadline_ns = SECOND_NS // 5
    running = await start_server(options)
    slow = await running.login()
    slow.send("SUB big 1")
    await slow.until_pong()
    slow.reader._transport.pause_reading()
    publisher = await running.login()
    for _ in range(30):
        publisher.send("PUB big 500000", "x" * 500_000)
    await publisher.until_pong()

    slow.send("NONSENSE")

    assert "cid:1" in await running.log.wait_for("Client connection closed")


async def test_what_a_client_said_before_it_left_is_still_done(start_server: StartServer) -> None:
    running = await start_server()
    subscriber = await running.login()
    subscriber.send("SUB a 1")
    await subscriber.until_pong()
    publisher = await running.login()

    publisher.send("PUB a 3", "bye")
    publisher.writer.write_eof()

    assert await subscriber.line() == "MSG a 1 3"
    assert await publisher.rest() == []


async def test_stopping_closes_every_client_and_frees_the_port(start_server: StartServer) -> None:
    running = await start_server()
    port = running.server.port
    clients = [await running.login() for _ in range(5)]

    await running.server.stop()

    assert [await client.rest() for client in clients] == [[]] * 5
    assert [line for line in running.log.lines if "[INF]" in line][-2:] == [
        "[INF] Initiating Shutdown...",
        "[INF] Server Exiting..",
    ]
    again = await start_server(Options(host="127.0.0.1", port=port))
    assert again.server.port == port


async def test_a_port_in_use_is_an_error(start_server: StartServer) -> None:
    running = await start_server()

    with pytest.raises(OSError, match="in use"):
        await start_server(Options(host="127.0.0.1", port=running.server.port))


async def test_two_servers_do_not_share_a_store(start_server: StartServer) -> None:
    await start_server(jetstream=True)

    with pytest.raises(OptionsError, match="in use by another server"):
        await start_server(jetstream=True)


@pytest.mark.long
async def test_a_lame_duck_tells_its_clients_lets_them_go_and_stops(start_server: StartServer) -> None:
    options = embedded_options(jetstream=False)
    options.lame_duck_grace_ns, options.lame_duck_duration_ns = SECOND_NS // 20, SECOND_NS // 4
    running = await start_server(options)
    modern = await running.login(protocol=1)
    await modern.line()  # The INFO that follows the first PONG.
    old = await running.login(protocol=0)

    running.server.enter_lame_duck()

    assert json.loads((await modern.line()).removeprefix("INFO "))["ldm"] is True
    assert await modern.rest() == []
    assert await old.rest() == []
    await asyncio.wait_for(running.server.wait_stopped(), 5)
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await running.connect()


async def test_a_lame_duck_ends_waiting_pulls_and_still_takes_messages(start_server: StartServer) -> None:
    options = embedded_options()
    options.lame_duck_grace_ns, options.lame_duck_duration_ns = 10 * SECOND_NS, 30 * SECOND_NS
    running = await start_server(options)
    client = await running.login(headers=True)
    client.send("SUB in 1", "PUB $JS.API.STREAM.CREATE.S in 12", '{"name":"S"}')
    assert (await client.line()).startswith("MSG in 1 ")
    await client.line()
    consumer = '{"stream_name":"S","config":{"durable_name":"C"}}'
    client.send(f"PUB $JS.API.CONSUMER.CREATE.S.C in {len(consumer)}", consumer)
    assert (await client.line()).startswith("MSG in 1 ")
    await client.line()
    client.send("PUB $JS.API.CONSUMER.MSG.NEXT.S.C in 11", '{"batch":1}')
    await client.until_pong()

    running.server.enter_lame_duck()

    assert (await client.line()).startswith("HMSG in 1 ")
    assert await client.line() == "NATS/1.0 409 Server Shutdown"
    assert [await client.line() for _ in range(4)][2:] == ["", ""]
    client.send("PUB S in 1", "x")
    assert (await client.line()).startswith("MSG in 1 ")
    assert json.loads(await client.line()) == {"stream": "S", "seq": 1}


async def test_info_advertises_the_address_the_operator_gave(start_server: StartServer) -> None:
    options = embedded_options(jetstream=False)
    options.client_advertise = "example.org:4333"
    running = await start_server(options)

    client = await running.connect()

    assert (client.info["host"], client.info["port"]) == ("example.org", 4333)
