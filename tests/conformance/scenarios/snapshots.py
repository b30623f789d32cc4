"""Snapshot and restore of a stream, driven as a client does."""

from __future__ import annotations

from tests.conformance.scenario import Run, scenario, wait_until_removed


def snapshot(run: Run, name: str, **options: object) -> bytes:
    """Take a snapshot, acknowledging chunks; record the shape of the flow, not its bytes."""
    chunks = run.subscribe("snap.chunks")
    run.api(f"STREAM.SNAPSHOT.{name}", {"deliver_subject": "snap.chunks", **options})
    data = b""
    replies = 0
    while True:
        frame = run.client.next_message(chunks.sid)
        if not frame.payload:
            run.record("end", line=frame.header_block.split(b"\r\n")[0].decode(), reply=frame.reply)
            break
        data += frame.payload
        if frame.reply:
            replies += 1
            run.client.publish(frame.reply)
    run.record("flow", some=len(data) > 0, acknowledged=replies > 0)
    chunks.close()
    return data


def restore(run: Run, name: str, request: dict[str, object], data: bytes, size: int = 64 * 1024) -> None:
    target = run.api(f"STREAM.RESTORE.{name}", request)["deliver_subject"]
    for start in range(0, len(data), size):
        frame = run.client.request(target, data[start : start + size])
        run.record("chunk", payload=frame.payload.decode(), headers=frame.status)
    answer = run.client.request(target, b"", timeout_s=10)
    run.record("restored", document=answer.json())


@scenario()
def there_and_back_again(run: Run) -> None:
    run.stream("S", description="kept")
    run.fill("S.a", 3)
    run.publish("S.b", "headers", [("A", "1")])
    run.api("STREAM.MSG.DELETE.S", {"seq": 2})
    run.consumer("S", "C")
    run.ack(run.fetch("S", "C", 1)[0])
    info = run.stream_info("S")
    data = snapshot(run, "S")
    run.api("STREAM.DELETE.S")
    wait_until_removed(run.server, run.client, ["S"])
    restore(run, "S", {"config": info["config"], "state": info["state"]}, data)
    run.stream_info("S", {"deleted_details": True, "subjects_filter": ">"})
    run.consumer_info("S", "C")
    run.api("STREAM.MSG.GET.S", {"seq": 4})
    run.publish("S.a", "after")
    run.fetch("S", "C", 1)


@scenario()
def large_snapshots_are_sent_in_windows(run: Run) -> None:
    run.stream("S", quiet=True)
    letters = "".join(chr(97 + (number * 7919 + number // 13) % 26) for number in range(20_000))
    for number in range(10):
        run.client.request("S.a", (letters[number * 977 :] + letters[: number * 977]).encode())
    snapshot(run, "S", chunk_size=1024, window_size=8192, no_consumers=True)


@scenario()
def memory_streams_can_be_snapshotted(run: Run) -> None:
    run.stream("S", storage="memory", quiet=True)
    run.fill("S.a", 3)
    info = run.stream_info("S")
    data = snapshot(run, "S")
    run.api("STREAM.DELETE.S", quiet=True)
    restore(run, "S", {"config": info["config"], "state": info["state"]}, data)
    run.stream_info("S")


@scenario()
def refusals(run: Run) -> None:
    run.stream("S", quiet=True)
    run.api("STREAM.SNAPSHOT.S")
    run.api("STREAM.SNAPSHOT.S", {"deliver_subject": "a..b"})
    run.api("STREAM.SNAPSHOT.S", {"deliver_subject": ""})
    run.api("STREAM.SNAPSHOT.NOPE", {"deliver_subject": "x"})
    run.api("STREAM.SNAPSHOT.NOPE", {"zzz": "x"})
    run.api("STREAM.SNAPSHOT.NOPE", b"{")
    run.api("STREAM.SNAPSHOT.NOPE")
    run.api("STREAM.SNAPSHOT.S", {"zzz": "x"})
    run.api("STREAM.RESTORE.S")
    run.api("STREAM.RESTORE.S", {"config": {"name": "S"}, "state": {}})
    run.api("STREAM.RESTORE.T", b"{")
    run.api("STREAM.RESTORE.T", {"config": {"name": "U"}, "state": {}})


@scenario()
def restoring_rubbish_fails(run: Run) -> None:
    state: dict[str, object] = {"messages": 0, "bytes": 0, "first_seq": 0, "last_seq": 0, "consumer_count": 0}
    state |= {"first_ts": "0001-01-01T00:00:00Z", "last_ts": "0001-01-01T00:00:00Z"}
    request = {"config": {"name": "T", "subjects": ["t"]}, "state": state}
    target = run.api("STREAM.RESTORE.T", request)["deliver_subject"]
    run.client.request(target, b"this is no snapshot")
    answer = run.client.request(target, b"", timeout_s=10).json()
    run.record("failed", type=answer["type"], code=answer["error"]["code"], err_code=answer["error"]["err_code"])
    run.stream_info("T")


@scenario()
def advisories_of_snapshots(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 2)
    info = run.api("STREAM.INFO.S", quiet=True)
    # The order between kinds is not promised: one subscription each.
    kinds = ("SNAPSHOT_CREATE", "SNAPSHOT_COMPLETE", "DELETED", "RESTORE_CREATE", "CREATED", "RESTORE_COMPLETE")
    advisories = [run.subscribe(f"$JS.EVENT.ADVISORY.STREAM.{kind}.S") for kind in kinds]
    data = snapshot(run, "S")
    run.api("STREAM.DELETE.S", quiet=True)
    wait_until_removed(run.server, run.client, ["S"])
    restore(run, "S", {"config": info["config"], "state": info["state"]}, data)
    for inbox in advisories:
        inbox.take(1)
