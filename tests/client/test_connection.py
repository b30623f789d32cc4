"""Connecting, core publish and subscribe, requests, and what happens when the connection breaks."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from jetspark.client import errors, sync
from jetspark.client.aio import Connection, Msg, connect
from jetspark.client.headers import HeaderValue
from jetspark.client.sync import connect as connect_sync
from tests.client.conftest import NatsServer
from tests.client.peer import ScriptedPeer
from tests.client.waiting import until


async def test_a_published_message_reaches_a_subscriber_with_its_headers(url: str, name: str) -> None:
    async with await connect(url) as connection:
        subscription = await connection.subscribe(f"{name}.>")
        await connection.publish(f"{name}.a", b"hello", headers={"Colour": "red", "Many": ["1", "2"]})
        message = await subscription.next(5)
        assert message is not None
        assert (message.subject, message.data, message.reply) == (f"{name}.a", b"hello", "")
        assert message.headers["colour"] == "red"
        assert message.headers.get_all("Many") == ["1", "2"]


async def test_text_is_sent_as_utf8(url: str, name: str) -> None:
    async with await connect(url) as connection, await connection.subscribe(name) as subscription:
        await connection.publish(name, "grün")
        message = await subscription.next(5)
        assert message is not None
        assert message.data.decode() == "grün"


async def test_next_returns_none_when_nothing_comes(url: str, name: str) -> None:
    async with await connect(url) as connection:
        subscription = await connection.subscribe(name)
        assert await subscription.next(0.01) is None


async def test_a_queue_group_shares_messages(url: str, name: str) -> None:
    async with await connect(url) as connection:
        left = await connection.subscribe(name, queue="workers")
        right = await connection.subscribe(name, queue="workers")
        for _ in range(50):
            await connection.publish(name, b"x")
        await connection.flush()
        assert left.pending_count + right.pending_count == 50


async def test_request_gets_the_answer_of_a_callback(url: str, name: str) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(message.data.upper(), headers={"Seen": "yes"})

    async with await connect(url) as connection:
        await connection.subscribe(name, callback=answer)
        reply = await connection.request(name, b"abc", timeout=5)
        assert (reply.data, reply.headers["Seen"]) == (b"ABC", "yes")


async def test_request_nobody_listens_to_fails_at_once(url: str, name: str) -> None:
    async with await connect(url) as connection:
        with pytest.raises(errors.NoRespondersError):
            await connection.request(name, b"", timeout=30)


async def test_request_without_an_answer_is_a_timeout_error(url: str, name: str) -> None:
    async with await connect(url) as connection:
        await connection.subscribe(name)
        with pytest.raises(TimeoutError) as caught:
            await connection.request(name, b"", timeout=0.05)
        assert isinstance(caught.value, errors.RequestTimeoutError)
        assert connection._core.requests.waiting == {}


async def test_many_requests_at_once_each_get_their_own_answer(url: str, name: str) -> None:
    async with await connect(url) as connection:
        await connection.subscribe(name, callback=lambda message: message.respond(message.data))
        answers = await asyncio.gather(*[connection.request(name, b"%d" % i, timeout=10) for i in range(300)])
        assert [answer.data for answer in answers] == [b"%d" % i for i in range(300)]


async def test_auto_unsubscribe_ends_the_iterator_after_its_limit(url: str, name: str) -> None:
    async with await connect(url) as connection:
        subscription = await connection.subscribe(name)
        await subscription.unsubscribe(limit=3)
        for i in range(10):
            await connection.publish(name, b"%d" % i)
        assert [message.data async for message in subscription] == [b"0", b"1", b"2"]


async def test_drain_lets_callbacks_finish_what_has_come(url: str, name: str) -> None:
    seen: list[bytes] = []

    async def slowly(message: Msg) -> None:
        await asyncio.sleep(0)  # noqa: TID251 - gives way, does not wait
        seen.append(message.data)

    async with await connect(url) as connection, await connect(url) as sender:
        subscription = await connection.subscribe(name, callback=slowly)
        await connection.flush()
        for i in range(500):
            await sender.publish(name, b"%d" % i)
        await sender.flush()
        await connection.flush()
        await subscription.drain()
        assert len(seen) == 500


async def test_connection_drain_closes_after_the_last_callback(url: str, name: str) -> None:
    seen: list[bytes] = []
    connection = await connect(url)
    await connection.subscribe(name, callback=lambda message: seen.append(message.data))
    for _ in range(100):
        await connection.publish(name, b"x")
    await connection.flush()
    await connection.drain()
    assert len(seen) == 100
    assert connection.is_closed
    with pytest.raises(errors.ConnectionClosedError):
        await connection.publish(name, b"x")


async def test_an_exception_in_a_callback_reaches_the_error_hook_and_the_log(
    url: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: asyncio.Queue[BaseException] = asyncio.Queue()

    def fail(message: Msg) -> None:
        raise KeyError("broken")

    async with await connect(url, on_error=told.put_nowait) as connection:
        await connection.subscribe(name, callback=fail)
        await connection.publish(name, b"x")
        error = await asyncio.wait_for(told.get(), 5)
        assert isinstance(error, KeyError)
        assert "Traceback" in caplog.text
        assert [record.getMessage() for record in caplog.records] == [
            f"the callback of {name} failed: KeyError: 'broken'"
        ]


async def test_another_event_loop_is_refused_at_the_first_call(url: str, name: str) -> None:
    async with await connect(url) as connection:
        jetstream = connection.jetstream()
        calls: list[Callable[[], Any]] = [
            lambda: connection.publish(name, b""),
            lambda: connection.request(name, b""),
            lambda: connection.subscribe(name),
            lambda: jetstream.publish(name, b""),
            lambda: connection.flush(),
        ]

        def use(call: Callable[[], Any]) -> None:
            with pytest.raises(errors.WrongLoopError):
                asyncio.run(call())

        for call in calls:
            await asyncio.to_thread(use, call)
        subscription = await connection.subscribe(name)
        await connection.publish(name, b"x")
        assert await subscription.next(5) is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_fork_is_told_that_the_connection_is_not_its_own(url: str, name: str) -> None:
    async with await connect(url) as connection:
        subscription = await connection.subscribe(name)
        await connection.flush()
        pid = os.fork()
        if pid == 0:
            try:
                connection.publish(name, b"from the child").send(None)
            except errors.ConnectionClosedError as error:
                os._exit(7 if "the process was forked" in str(error) else 2)
            os._exit(1)
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        await connection.publish(name, b"from the parent")
        message = await subscription.next(5)
        assert message is not None
        assert message.data == b"from the parent"


@pytest.mark.parametrize("subject", ["", "a..b", "a b", "a\r\nPUB x 0\r\n", ".a", "a.", "a.*", "a.>"])
async def test_subjects_that_cannot_be_published_to_are_refused_before_sending(url: str, subject: str) -> None:
    async with await connect(url) as connection:
        with pytest.raises(errors.BadSubjectError):
            await connection.publish(subject, b"x")
        await connection.flush()


@pytest.mark.parametrize("headers", [{"A": "x\r\nB: y"}, {"A\r\n": "x"}, {"A:": "x"}, {"": "x"}, {"A": "x\ny"}])
async def test_headers_that_would_break_the_line_are_refused(url: str, headers: dict[str, str]) -> None:
    async with await connect(url) as connection:
        with pytest.raises(errors.BadHeaderError):
            await connection.publish("a", b"x", headers=headers)


async def test_a_message_larger_than_the_server_takes_is_refused_before_sending(url: str) -> None:
    async with await connect(url) as connection:
        with pytest.raises(errors.MaxPayloadError):
            await connection.publish("a", b"x" * (connection.max_payload + 1))
        await connection.flush()


async def test_a_non_ascii_header_does_not_hide_the_others(url: str, name: str) -> None:
    async with await connect(url) as connection, await connection.subscribe(name) as subscription:
        headers: dict[str, HeaderValue] = {"A": "é", "B": b"\xff\xfe", "C": "plain"}
        await connection.publish(name, b"", headers=headers)
        message = await subscription.next(5)
        assert message is not None
        assert message.headers["A"] == "é"
        assert message.headers["C"] == "plain"
        assert message.headers["B"].encode("utf-8", "surrogateescape") == b"\xff\xfe"


async def test_a_full_subscription_drops_and_says_so_once(url: str, name: str) -> None:
    told: list[BaseException] = []
    async with await connect(url, on_error=told.append) as connection:
        subscription = await connection.subscribe(name, pending_count_max=10)
        for i in range(25):
            await connection.publish(name, b"%d" % i)
        await connection.flush()
        assert subscription.pending_count == 10
        assert subscription.dropped_count == 15
        await until(lambda: told)
        assert [type(error) for error in told] == [errors.SlowConsumerError]
        first = await subscription.next(1)
        assert first is not None
        assert first.data == b"0"


async def test_a_full_subscription_can_drop_the_oldest_instead(url: str, name: str) -> None:
    async with await connect(url) as connection:
        subscription = await connection.subscribe(name, pending_count_max=10, when_full="drop_old")
        for i in range(25):
            await connection.publish(name, b"%d" % i)
        await connection.flush()
        first = await subscription.next(1)
        assert first is not None
        assert first.data == b"15"


async def test_durations_may_be_timedeltas(url: str) -> None:
    moment = timedelta(seconds=2)
    async with await connect(url, connect_timeout=moment, request_timeout=moment, ping_interval=moment) as connection:
        assert connection._link.options.request_timeout == 2.0
        await connection.flush(moment)
    with connect_sync(url, connect_timeout=moment, reconnect_wait_max=moment) as blocking:
        blocking.flush(moment)


async def test_settings_of_a_context_that_cannot_work_are_refused(url: str) -> None:
    async with await connect(url) as connection:
        with pytest.raises(errors.BadOptionError, match="publish_window"):
            connection.jetstream(publish_window=-1)
        with pytest.raises(errors.BadOptionError, match="timeout"):
            connection.jetstream(timeout=0)


async def test_no_server_is_told_at_once_with_its_cause() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(errors.NoServersError) as caught:
        await connect(f"nats://127.0.0.1:{port}")
    assert isinstance(caught.value.causes[0][1], ConnectionRefusedError)


async def test_a_server_that_never_speaks_is_a_connect_timeout() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(errors.ConnectTimeoutError) as caught:
            await connect(f"nats://127.0.0.1:{silent.getsockname()[1]}", connect_timeout=0.1)
        assert isinstance(caught.value, TimeoutError)


async def connect_blocking(*arguments: Any, **options: Any) -> Any:
    return await asyncio.to_thread(sync.connect, *arguments, **options)


@pytest.mark.long
@pytest.mark.parametrize("connecting", [connect, connect_blocking])
async def test_several_servers_that_never_speak_are_a_timeout_too(connecting: Callable[..., Any]) -> None:
    with socket.socket() as silent, socket.socket() as mute, socket.socket() as refusing:
        urls = []
        for one in (silent, mute, refusing):
            one.bind(("127.0.0.1", 0))
            urls.append(f"nats://127.0.0.1:{one.getsockname()[1]}")
        silent.listen()
        mute.listen()
        with pytest.raises(errors.NoServersError) as caught:
            await connecting(urls[:2], connect_timeout=0.1)
        assert isinstance(caught.value, TimeoutError)
        with pytest.raises(errors.NoServersError) as caught:
            await connecting(urls, connect_timeout=0.1)
        assert not isinstance(caught.value, TimeoutError)


@pytest.mark.long
async def test_bad_credentials_fail_the_first_connect_at_once(make_server: Any) -> None:
    server = make_server("--user", "me", "--pass", "secret")
    with pytest.raises(errors.AuthorizationError):
        await connect(server.url, user="me", password="wrong")
    async with await connect(server.url, user="me", password="secret") as connection:
        await connection.flush()
    async with await connect(f"nats://me:secret@127.0.0.1:{server.port}") as connection:
        await connection.flush()


@pytest.mark.long
async def test_a_token_may_be_a_callable(make_server: Any) -> None:
    server = make_server("--auth", "t0ken")
    async with await connect(server.url, token=lambda: "t0ken") as connection:
        await connection.flush()
    async with await connect(f"nats://t0ken@127.0.0.1:{server.port}") as connection:
        await connection.flush()


@pytest.mark.long
async def test_subscriptions_and_buffered_publishes_survive_a_restart(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    events: list[str] = []
    connection = await connect(
        server.url, on_disconnect=lambda: events.append("down"), on_reconnect=lambda: events.append("up")
    )
    async with connection:
        subscription = await connection.subscribe(name)
        await connection.flush()
        server.stop()
        await until(lambda: not connection.is_connected)
        await connection.publish(name, b"while away")
        server.start()
        message = await subscription.next(10)
        assert message is not None
        assert message.data == b"while away"
        await until(lambda: events == ["down", "up"])
        assert connection.reconnect_count == 1


@pytest.mark.long
async def test_the_buffer_while_disconnected_is_bounded(make_server: Any) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url, pending_bytes_max=1000) as connection:
        server.stop()
        await until(lambda: not connection.is_connected)
        for _ in range(8):
            await connection.publish("a", b"x" * 100)
        with pytest.raises(errors.OutboundBufferError):
            await connection.publish("a", b"x" * 200)
        assert connection.pending_bytes <= 1000


@pytest.mark.long
async def test_reconnect_attempts_end_with_a_closed_connection(make_server: Any) -> None:
    server: NatsServer = make_server()
    closed = asyncio.Event()
    connection = await connect(
        server.url, reconnect_attempts_max=2, reconnect_wait=0.01, reconnect_wait_max=0.02, on_close=closed.set
    )
    server.stop()
    await asyncio.wait_for(closed.wait(), 10)
    assert connection.is_closed
    assert connection.last_error is not None


@pytest.mark.long
async def test_a_request_in_flight_fails_when_the_connection_breaks(make_server: Any, name: str) -> None:
    server: NatsServer = make_server()
    async with await connect(server.url) as connection:
        await connection.subscribe(name)
        asking = asyncio.create_task(connection.request(name, b"", timeout=30))
        await connection.flush()
        server.kill()
        with pytest.raises(errors.ConnectionLostError):
            await asyncio.wait_for(asking, 5)


@pytest.mark.long
async def test_permission_errors_reach_the_hook_and_keep_the_connection(make_server: Any) -> None:
    config = 'authorization { users = [{user: a, password: b, permissions: {publish: "ok"}}] }'
    server = make_server(config=config, jetstream=False)
    told: asyncio.Queue[BaseException] = asyncio.Queue()
    async with await connect(server.url, user="a", password="b", on_error=told.put_nowait) as connection:
        await connection.publish("forbidden", b"")
        error = await asyncio.wait_for(told.get(), 5)
        assert isinstance(error, errors.PermissionsError)
        assert error.subject == "forbidden"
        await connection.flush()


async def test_lame_duck_is_told(peer: ScriptedPeer) -> None:
    told = asyncio.Event()
    async with await connect(peer.url, on_lame_duck=told.set) as connection:
        peer.send(b'INFO {"ldm":true}\r\n')
        await asyncio.wait_for(told.wait(), 5)
        assert connection.is_lame_duck


async def test_discovered_servers_join_the_pool(peer: ScriptedPeer) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    async with await connect(peer.url, on_discovered_server=told.put_nowait) as connection:
        peer.send(b'INFO {"connect_urls":["127.0.0.2:4222"]}\r\n')
        assert await asyncio.wait_for(told.get(), 5) == "nats://127.0.0.2:4222"
        assert connection.discovered_servers == ["nats://127.0.0.2:4222"]


async def test_a_silent_server_is_given_up_after_unanswered_pings(peer: ScriptedPeer) -> None:
    down = asyncio.Event()
    async with await connect(peer.url, ping_interval=0.05, on_disconnect=down.set):
        peer.answers_pings = False
        await asyncio.wait_for(down.wait(), 5)


async def test_garbage_from_the_server_breaks_the_connection_and_it_comes_back(peer: ScriptedPeer) -> None:
    back = asyncio.Event()
    async with await connect(peer.url, on_reconnect=back.set) as connection:
        peer.send(b"\x00\x01garbage\r\n")
        await asyncio.wait_for(back.wait(), 5)
        await connection.flush()


async def test_server_pings_are_answered(peer: ScriptedPeer) -> None:
    async with await connect(peer.url):
        peer.send(b"PING\r\n")
        await peer.expect(b"PONG\r\n")


async def test_the_inbox_prefix_is_used_for_answers(peer: ScriptedPeer) -> None:
    async with await connect(peer.url, inbox_prefix="_MINE.x") as connection:
        asking = asyncio.create_task(connection.request("a", b"", timeout=5))
        line = await peer.expect(b"SUB _MINE.x.")
        assert line.startswith(b"SUB _MINE.x.")
        asking.cancel()


async def test_closing_wakes_everyone_who_waits(url: str, name: str) -> None:
    connection: Connection = await connect(url)
    subscription = await connection.subscribe(name)
    waiting = asyncio.create_task(subscription.next(30))
    await connection.flush()
    await connection.close()
    with pytest.raises(errors.SubscriptionClosedError):
        await asyncio.wait_for(waiting, 5)
