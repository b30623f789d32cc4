"""Three nats-servers that are one cluster, for tests of what only a cluster does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from jetspark.client.sync import JetStream, Stream, connect
from jetspark.errors import JetsparkError
from jetspark.testing.processes import ServerProcess, free_ports, nats_server_command

NAMES = ("n0", "n1", "n2")
CONFIG = """
server_name: {name}
cluster {{ name: trio, listen: "127.0.0.1:{port}", routes: [{routes}] }}
"""


class Cluster:
    """Three nats-servers that know each other."""

    def __init__(self, folder: Path) -> None:
        command = nats_server_command()
        assert command is not None, "no nats-server binary: install the dev dependencies"
        ports = free_ports(len(NAMES))
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        self.nodes = {
            name: ServerProcess(
                command,
                config_text=CONFIG.format(name=name, port=port, routes=routes),
                store_dir=folder / name,
            )
            for name, port in zip(NAMES, ports, strict=True)
        }

    @contextlib.contextmanager
    def running(self) -> Iterator[Cluster]:
        """Started, for the length of a block."""
        try:
            for node in self.nodes.values():
                node.start()
            yield self
        finally:
            for node in self.nodes.values():
                node.kill()
                node.discard()

    @property
    def urls(self) -> str:
        return ",".join(f"nats://{node.host}:{node.port}" for node in self.nodes.values())

    def replicated_stream(self, jetstream: JetStream, name: str) -> Stream:
        """A stream on all three, made as soon as they have a leader and current as soon as all have it."""
        waiting = threading.Event()
        for _ in range(300):
            with contextlib.suppress(JetsparkError, TimeoutError):
                stream = jetstream.create_stream(name, subjects=[f"{name}.>"], num_replicas=3)
                replicas = (stream.info().cluster or {}).get("replicas") or []
                if len(replicas) == 2 and all(one.get("current") for one in replicas):
                    return stream
            # Nothing else is here to wait on: an election has no event a client could see.
            waiting.wait(0.1)
        raise AssertionError("the cluster did not agree on a stream")

    def kill_leader(self, stream: str) -> str:
        """Kill the server that leads a stream; its name."""
        with connect(self.urls.split(",")) as client:
            leader: str = (client.jetstream().stream_info(stream).cluster or {})["leader"]
        self.nodes[leader].kill()
        return leader
