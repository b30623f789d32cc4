"""What a type checker says of a user's program: nothing of a good one, the right thing of a bad one."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import jetspark
from jetspark.client.core.options import ConnectOptions, ConnectSettings

GOOD = """
import asyncio
from datetime import timedelta

import jetspark
import jetspark.sync
from jetspark.client.errors import PublishError


async def handle(message: jetspark.Msg) -> None:
    await message.ack(wait=True)


async def main() -> int:
    async with await jetspark.connect("nats://127.0.0.1:4222", name="app", request_timeout=2) as connection:
        jetstream = connection.jetstream()
        stream = await jetstream.create_stream("ORDERS", subjects=["orders.>"], max_age=timedelta(days=1))
        future = await jetstream.publish_async("orders.new", b"1", msg_id="1")
        try:
            sequence: int = (await future).seq
        except PublishError as error:
            print(error.may_be_stored)
        sequence = (await jetstream.publish("orders.new", "2")).seq
        consumer = await stream.create_consumer("worker", ack_wait=30)
        for message in await consumer.fetch(10, expires=timedelta(seconds=1)):
            async with message.processing(nak_delay=1):
                sequence = message.metadata.stream_sequence
        async for message in consumer.fetch_each(10):
            data: bytes = message.data
            print(data)
        async with consumer.consume(handle):
            pass
        async with consumer.consume() as messages:
            async for message in messages:
                await message.nak(delay=1)
        bucket = await jetstream.create_key_value("settings", history=3)
        entry = await bucket.get("key")
        print(entry.value.decode(), entry.revision)
        return sequence


def blocking() -> int:
    with jetspark.sync.connect(token=lambda: "secret") as connection:
        jetstream = connection.jetstream()
        future = jetstream.publish_async("orders.new", b"1")
        for message in jetstream.stream("ORDERS").consumer("worker").fetch(5):
            message.ack()
        return future.wait(1).seq


asyncio.run(main())
"""

BAD = """
import jetspark.sync

with jetspark.sync.connect(conect_timeout=1) as connection:
    stream = connection.jetstream().stream("S")
    ack: str = connection.jetstream().publish("s.a", b"").seq
    stream.consumer("c").fetch("ten")
    jetspark.conect()
"""


def check(program: str, folder: Path) -> str:
    """What mypy --strict says of a program of somebody who has installed the package."""
    path = folder / "program.py"
    path.write_text(program)
    sources = str(Path(jetspark.__file__).parents[1])
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            "--cache-dir",
            str(folder / "cache"),
            path.name,
        ],
        env={"MYPYPATH": sources if "site-packages" not in sources else "", "PATH": ""},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    # Of a package that is installed it tells nothing; the source tree's own needs are none of the user's.
    return "\n".join(line for line in result.stdout.splitlines() if line.startswith("program.py"))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_users_program_is_clean_under_mypy_strict_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    assert check(GOOD, tmp_path) == ""
    said = check(BAD, tmp_path)
    assert 'Unexpected keyword argument "conect_timeout"' in said
    assert "program.py:6: error: Incompatible types in assignment" in said
    assert "program.py:7: error: Argument 1 to" in said
    assert 'program.py:8: error: Module has no attribute "conect"' in said


def test_the_keywords_of_connect_are_the_fields_of_its_options() -> None:
    options = {field.name: field.type for field in dataclasses.fields(ConnectOptions)}
    assert options.pop("servers") is not None
    assert sorted(ConnectSettings.__annotations__) == sorted(options)
