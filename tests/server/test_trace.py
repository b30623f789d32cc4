"""`-V`: the protocol in the log."""

from __future__ import annotations

from tests.server.harness import StartServer

from jetspark.server.embedded import embedded_options


async def test_every_operation_is_written_with_its_direction(start_server: StartServer) -> None:
    options = embedded_options(jetstream=False)
    options.trace = True
    running = await start_server(options)
    client = await running.connect()

    client.send('CONNECT {"verbose":false,"pass":"se\\"cret","auth_token": "t","headers":true}')
    client.send("SUB foo 1", "SUB bar q 2", "PUB foo 2", "hi", "HPUB foo rep 12 14", "NATS/1.0", "", "hi")
    client.send("UNSUB 1 5", "UNSUB 2")
    await client.until_pong()

    lines = [line.split(" - ")[-1] for line in running.log.lines if line.startswith("[TRC]")]
    assert lines == [
        '<<- [CONNECT {"verbose":false,"pass":"[REDACTED]","auth_token": "[REDACTED]","headers":true}]',
        "<<- [SUB foo 1]",
        "<<- [SUB bar q 2]",
        "<<- [PUB foo 2]",
        '<<- MSG_PAYLOAD: ["hi"]',
        "<<- [HPUB foo rep 12 14]",
        '<<- MSG_PAYLOAD: ["NATS/1.0\\r\\n\\r\\nhi"]',
        "<<- [UNSUB 1 5]",
        "<<- [UNSUB 2]",
        "<<- [PING]",
        "->> [MSG foo 1 2]",
        '->> MSG_PAYLOAD: ["hi"]',
        "->> [HMSG foo 1 rep 12 14]",
        '->> MSG_PAYLOAD: ["NATS/1.0\\r\\n\\r\\nhi"]',
        "->> [PONG]",
    ]


async def test_long_payloads_may_be_cut(start_server: StartServer) -> None:
    options = embedded_options(jetstream=False)
    options.trace, options.traced_msg_len_max = True, 3
    running = await start_server(options)
    client = await running.login()

    client.send("PUB foo 10", "0123456789")
    await client.until_pong()

    assert any(line.endswith('<<- MSG_PAYLOAD: ["012"...]') for line in running.log.lines)
