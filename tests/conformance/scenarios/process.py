"""The process: signals, lame duck, limits from its configuration."""

from __future__ import annotations

import signal

from tests.conformance.scenario import Run, Server, scenario

OWN = Server(own=True)


@scenario(OWN)
def clean_stop_closes_connections(run: Run) -> None:
    run.client.flush()
    run.record_control(run.client, 1)
    status = run.server.stop()
    run.record("stopped", status=status)
    run.record_control(run.client, 1)


@scenario(OWN)
def interrupt_is_a_clean_stop(run: Run) -> None:
    run.client.flush()
    run.server.send_signal(signal.SIGINT)
    run.record("stopped", status=run.server.wait())


@scenario(Server(own=True, config='lame_duck_duration: "30s"\nlame_duck_grace_period: "1s"\n'))
def lame_duck_tells_clients(run: Run) -> None:
    run.stream("S", quiet=True)
    client = run.connect()
    client.flush()
    run.record_control(client, 1)
    run.server.send_signal(signal.SIGUSR2)
    run.record_control(client, 1)


@scenario(Server(config="max_connections: 2\n", own=True))
def too_many_connections(run: Run) -> None:
    run.client.flush()
    run.connect().flush()
    third = run.connect(bare=True)
    run.record("third", info=bool(third.info))
    if third.info:
        run.record_control(third, 2)
    else:
        run.record_control(third, 1)


@scenario(Server(jetstream=False, config="max_subscriptions: 1\n"))
def too_many_subscriptions(run: Run) -> None:
    client = run.connect(bare=True)
    run.exchange(client, b'CONNECT {"verbose":false}\r\nSUB a 1\r\n')
    run.exchange(client, b"SUB b 2\r\n")
    run.exchange(client, b"PUB a 1\r\nx\r\n")


@scenario(Server(config="jetstream { max_mem: 1MB, max_file: 2MB, limits { max_ack_pending: 5 } }\n", own=True))
def server_limits(run: Run) -> None:
    run.stream("F", max_bytes=3_000_000)
    run.stream("M", storage="memory", max_bytes=2_000_000)
    run.stream("S", max_bytes=1_000_000)
    run.consumer("S", "C")
    run.consumer("S", "D", max_ack_pending=6)
    run.api("INFO")


@scenario(
    Server(config='jetstream { limits { max_request_batch: 3, duplicate_window: "60s", default_max_consumers: 1 } }\n')
)
def request_and_window_limits(run: Run) -> None:
    run.stream("S")
    run.stream("T", duplicate_window=120_000_000_000)
    run.consumer("S", "C")
    run.consumer("S", "D")
    run.pull("S", "C", {"batch": 4, "no_wait": True}).take(1)
    run.consumer("S", "C", max_batch=5)


@scenario(Server(config="feature_flags { js_ack_fc_v2: true }\n"))
def longer_ack_subjects_behind_a_flag(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 2)
    run.consumer("S", "C", quiet=True)
    first, _second = run.fetch("S", "C", 2)
    run.ack(first)
    run.consumer_info("S", "C")
