"""Odd, stray and unreadable things in the store's folders: the server starts, and everything sound works."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.server.harness import Running, StartServer
from tests.server.visitor import add_stream, publish

from jetspark.server.dashboard.inner_client import InnerClient
from jetspark.server.embedded import embedded_options
from jetspark.server.run import main
from jetspark.store.disk import Disk, DiskOp, FileDisk

ACCOUNT = "%24G"
HURT = f"{ACCOUNT}/streams/HURT"

Damage = Callable[[Path], object]


def stray_file(place: str, name: str) -> Damage:
    return lambda root: (root / place / name).write_bytes(b"not the server's")


def folder(path: str) -> Damage:
    return lambda root: (root / path).mkdir(parents=True)


def folder_in_place_of(path: str) -> Damage:
    def damage(root: Path) -> None:
        (root / path).unlink()
        (root / path).mkdir()

    return damage


def file_in_place_of(path: str) -> Damage:
    def damage(root: Path) -> None:
        shutil.rmtree(root / path)
        (root / path).write_bytes(b"not a folder")

    return damage


def link_to_itself(path: str) -> Damage:
    """Cannot be opened by anybody, not even by the superuser, whom permissions do not stop."""

    def damage(root: Path) -> None:
        target = root / path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()
        target.symlink_to(target.name)

    return damage


def raw_name(place: str, name: bytes) -> Damage:
    """A name that is not UTF-8; where the file system has none such there is nothing to survive."""

    def damage(root: Path) -> None:
        try:
            Path(os.fsdecode(os.fsencode(root / place) + b"/" + name)).write_bytes(b"x")
        except OSError:
            pytest.skip("this file system has no names that are not UTF-8")

    return damage


# What is done to the store, and whether the stream HURT and its consumer C run afterwards.
DAMAGES: dict[str, tuple[Damage, bool, bool]] = {
    "file in jetstream": (stray_file(".", ".DS_Store"), True, True),
    "file in the account": (stray_file(ACCOUNT, "notes.txt"), True, True),
    "file in streams": (stray_file(f"{ACCOUNT}/streams", "core"), True, True),
    "hidden file in streams": (stray_file(f"{ACCOUNT}/streams", ".DS_Store"), True, True),
    "file in a stream": (stray_file(HURT, "notes.txt"), True, True),
    "file in msgs": (stray_file(f"{HURT}/msgs", ".DS_Store"), True, True),
    "file in obs": (stray_file(f"{HURT}/obs", ".DS_Store"), True, True),
    "file called like a consumer": (stray_file(f"{HURT}/obs", "core"), True, True),
    "empty folder in streams": (folder(f"{ACCOUNT}/streams/EMPTY"), True, True),
    "empty folder in obs": (folder(f"{HURT}/obs/EMPTY"), True, True),
    "lost+found": (folder("lost+found"), True, True),
    "folder called like a block": (folder(f"{HURT}/msgs/9.blk"), True, True),
    "folder called like a leftover": (folder(f"{HURT}/msgs/9.blk.new"), True, True),
    "folder in place of an index": (folder_in_place_of(f"{HURT}/msgs/1.idx"), True, True),
    "folder in place of a description": (folder_in_place_of(f"{HURT}/meta.inf"), False, False),
    "folder in place of a consumer's description": (folder_in_place_of(f"{HURT}/obs/C/meta.inf"), True, False),
    "folder in place of a consumer's log": (folder_in_place_of(f"{HURT}/obs/C/state.log"), True, False),
    "file in place of msgs": (file_in_place_of(f"{HURT}/msgs"), False, False),
    "file in place of obs": (file_in_place_of(f"{HURT}/obs"), False, False),
    "block 0": (stray_file(f"{HURT}/msgs", "0.blk"), True, True),
    "block -1": (stray_file(f"{HURT}/msgs", "-1.blk"), True, True),
    "block 007": (stray_file(f"{HURT}/msgs", "007.blk"), True, True),
    "block in other digits": (stray_file(f"{HURT}/msgs", "\u0663.blk"), True, True),
    "block of twenty nines": (stray_file(f"{HURT}/msgs", "99999999999999999999.blk"), True, True),
    "block not UTF-8": (raw_name(f"{HURT}/msgs", b"\xff\xfe.blk"), True, True),
    "file in streams not UTF-8": (raw_name(f"{ACCOUNT}/streams", b"\xff\xfe"), True, True),
    "unreadable block": (link_to_itself(f"{HURT}/msgs/1.blk"), False, False),
    "unreadable description": (link_to_itself(f"{HURT}/meta.inf"), False, False),
    "unreadable consumer log": (link_to_itself(f"{HURT}/obs/C/state.log"), True, False),
    "unreadable consumer": (link_to_itself(f"{HURT}/obs/C"), True, False),
    "unreadable stream": (link_to_itself(HURT), False, False),
    "bad escape in a stream's folder": (folder(f"{ACCOUNT}/streams/A%ZZ/msgs"), True, True),
    "bad escape in an account's folder": (folder("X%Z/streams/A"), True, True),
    "unreadable account": (lambda root: (root / "OTHER").symlink_to("OTHER"), True, True),
}


async def api(running: Running, verb: str, document: dict[str, Any]) -> Any:
    """The answer of the JetStream API, whether or not it is an error."""
    client = await InnerClient.login(running.server, {})
    _, payload = await client.request(f"$JS.API.{verb}", json.dumps(document).encode() if document else b"")
    await client.close()
    return json.loads(payload)


async def filled(start_server: StartServer) -> Path:
    """A store with a stream SOUND and a stream HURT of several blocks with a consumer C; the server has stopped."""
    running: Running = await start_server(embedded_options())
    await add_stream(running, "SOUND", "sound.>")
    await publish(running, "sound.a", b"1", b"2")
    await api(running, "STREAM.CREATE.HURT", {"name": "HURT", "subjects": ["hurt.>"], "max_bytes": 120_000})
    await publish(running, "hurt.a", *[bytes(1000) for _ in range(60)])
    consumer = {"stream_name": "HURT", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    await api(running, "CONSUMER.CREATE.HURT.C", consumer)
    root = Path(running.server.store_path)
    await running.server.stop()
    assert (root / HURT / "msgs/1.idx").exists()
    return root


async def healthz(running: Running, query: str = "") -> tuple[int, Any]:
    url = f"{running.server.monitor_url}/healthz{query}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, json.loads(await response.text())


@pytest.mark.long
@pytest.mark.parametrize("name", DAMAGES)
async def test_the_server_starts_whatever_is_in_its_folders(start_server: StartServer, name: str) -> None:
    damage, stream_runs, consumer_runs = DAMAGES[name]
    root = await filled(start_server)
    damage(root)

    running: Running = await start_server(embedded_options(http_port=0))

    assert (await api(running, "STREAM.INFO.SOUND", {}))["state"]["messages"] == 2
    assert (await api(running, "STREAM.NAMES", {}))["streams"] == ["HURT", "SOUND"]
    await publish(running, "sound.a", b"3")
    assert (await api(running, "STREAM.INFO.SOUND", {}))["state"]["messages"] == 3
    hurt = await api(running, "STREAM.INFO.HURT", {})
    if stream_runs:
        assert hurt["state"]["messages"] == 60
        # Enough for blocks to be closed and dropped.
        await publish(running, "hurt.a", *[bytes(1000) for _ in range(120)])
        assert (await api(running, "STREAM.INFO.HURT", {}))["state"]["last_seq"] == 180
        consumer = await api(running, "CONSUMER.INFO.HURT.C", {})
        assert consumer.get("error", {}).get("err_code", 0) == (0 if consumer_runs else 10195)
    else:
        assert hurt["error"]["err_code"] == 10194
    status, document = await healthz(running)
    if stream_runs and consumer_runs and name != "unreadable account":
        assert status == 200, document
    else:
        assert (status, "could not be recovered" in document["error"]) == (503, True)
        assert (await healthz(running, "?js-server-only=true"))[0] == 200
    assert not [line for line in running.log.lines if "Traceback" in line]


async def test_a_stray_file_takes_the_name_it_has(start_server: StartServer) -> None:
    root = await filled(start_server)
    (root / ACCOUNT / "streams/core").write_bytes(b"somebody's")
    running: Running = await start_server(embedded_options())

    answer = await api(running, "STREAM.CREATE.core", {"name": "core"})

    assert answer["error"]["err_code"] == 10194
    assert (root / ACCOUNT / "streams/core").read_bytes() == b"somebody's"


async def test_healthz_names_every_stream_and_consumer_that_is_offline(start_server: StartServer) -> None:
    root = await filled(start_server)
    DAMAGES["folder in place of a consumer's log"][0](root)
    (root / ACCOUNT / "streams/SOUND/meta.inf").write_bytes(b"damaged")
    running: Running = await start_server(embedded_options(http_port=0))

    status, document = await healthz(running, "?details=true")

    assert status == 503
    assert document["errors"] == [
        {
            "type": "STREAM",
            "account": "$G",
            "stream": "SOUND",
            "error": "JetStream stream '$G > SOUND' could not be recovered: its description is missing or damaged",
        },
        {
            "type": "CONSUMER",
            "account": "$G",
            "stream": "HURT",
            "consumer": "C",
            "error": "JetStream consumer '$G > HURT > C' could not be recovered: "
            "its files cannot be read: Is a directory",
        },
    ]
    assert (await healthz(running, "?account=$G&stream=SOUND"))[0] == 503
    assert (await healthz(running, "?account=$G&stream=HURT"))[0] == 200
    assert (await healthz(running, "?account=$G&stream=HURT&consumer=C"))[0] == 503


class FailingDisk(Disk):
    """The real disk, with files on a bad sector, by how their paths end."""

    def __init__(self) -> None:
        self.bad: set[str] = set()
        self._files = FileDisk()

    def _verify(self, path: str) -> None:
        if any(path.endswith(end) for end in self.bad):
            raise OSError(errno.EIO, "Input/output error", path)

    def perform(self, op: DiskOp) -> None:
        self._files.perform(op)

    def read(self, path: str, offset: int, size: int) -> bytes:
        self._verify(path)
        return self._files.read(path, offset, size)

    def read_all(self, path: str) -> bytes:
        self._verify(path)
        return self._files.read_all(path)

    def list_dir(self, path: str) -> list[str]:
        return self._files.list_dir(path)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def close(self) -> None:
        self._files.close()


async def test_a_read_that_fails_is_answered_and_logged_and_drops_nobody(start_server: StartServer) -> None:
    await filled(start_server)
    disk = FailingDisk()
    running: Running = await start_server(embedded_options(http_port=0), disk=disk)
    client = await InnerClient.login(running.server, {})
    disk.bad.add("/HURT/msgs/1.blk")

    _, got = await client.request("$JS.API.STREAM.MSG.GET.HURT", b'{"seq": 1}')
    header, _ = await client.request("$JS.API.CONSUMER.MSG.NEXT.HURT.C", b'{"batch": 1, "expires": 5000000000}')

    assert json.loads(got)["error"]["description"] == "stored message cannot be read: Input/output error"
    assert b"500 Stored Message Cannot Be Read" in header
    _, sound = await client.request("$JS.API.STREAM.MSG.GET.HURT", b'{"seq": 60}')
    assert json.loads(sound)["message"]["seq"] == 60
    await running.log.wait_for("Stream '$G > HURT' cannot be read")
    status, document = await healthz(running)
    assert (status, document["error"]) == (503, "JetStream stream '$G > HURT' cannot be read: Input/output error")
    await client.close()
    await running.close()
    disk.close()


def test_a_store_that_cannot_be_read_is_called_by_its_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store/jetspark.lock").symlink_to("jetspark.lock")

    code = main(["-js", "-sd", str(tmp_path / "store"), "-p", "-1"])

    assert code == 1
    written = "".join(capfd.readouterr())
    assert "Can't start JetStream" in written
    assert "listening" not in written
