"""The broker's surroundings in the simulator: time, the disk with its faults, connections, crashes and restarts.

Plays the edge: feeds bytes, ends turns, runs one commit at a time and lets it take as long as chance wants. Nothing
here decides what clients want (`workload`) or what is right (`witness`).
"""

from __future__ import annotations

import contextlib
import errno
import zlib
from collections import deque
from collections.abc import Callable
from random import Random

from jetspark.broker.broker import Broker
from jetspark.broker.gate import Gate
from jetspark.broker.options import BrokerOptions
from jetspark.broker.pending_commit import PendingCommit
from jetspark.broker.session import DELIVERY_HIGH_WATER
from jetspark.store.disk import APPEND, DiskOp
from jetspark.testing.broker_driver import START_NS
from jetspark.testing.sim import aftermath, recounts
from jetspark.testing.sim.client import SimClient
from jetspark.testing.sim.swarm import Swarm
from jetspark.testing.sim.violation import Violation
from jetspark.testing.sim.wire import Frame, PublishOp, read_frames
from jetspark.testing.sim.witness import Witness
from jetspark.testing.sim_disk import SimDisk

TRACE_SIZE = 50
# One step in this many looks at every message, not only at the counts.
DEEP_EVERY = 64


class World:
    """One broker and everything around it."""

    def __init__(self, rng: Random, swarm: Swarm, make_disk: Callable[[Random], SimDisk] = SimDisk) -> None:
        self.rng = rng
        self.swarm = swarm
        self.now_ns = START_NS
        # Chance of their own for the disk and the broker, so that what clients do does not depend on either.
        self._broker_chance = Random(rng.getrandbits(64))
        self.disk = make_disk(Random(rng.getrandbits(64)))
        self.witness = Witness()
        self.clients: list[SimClient] = []
        self.commit: PendingCommit | None = None
        self.trace: deque[tuple[int, str, object]] = deque(maxlen=TRACE_SIZE)
        # Of everything that happened: two runs of one seed have the same.
        self.digest = 0
        self.step_count = 0
        self.faults_on = True
        self._client_count = 0
        self.disk.folders.add("/store")
        self.broker = self._start()

    def note(self, what: str, detail: object = "") -> None:
        """Remember a step for the case that a later one goes wrong."""
        self.trace.append((self.now_ns, what, detail))
        text = detail if isinstance(detail, bytes) else f"{self.now_ns} {what} {detail}".encode()
        self.digest = zlib.crc32(text, self.digest)

    # -- life ----------------------------------------------------------------------------------------------------

    def _start(self) -> Broker:
        options = BrokerOptions()
        options.server_name = "sim"
        options.server_id = "SIM"
        options.jetstream = True
        options.store_dir = "/store"
        options.sync_always = self.swarm.sync_always
        broker = Broker(options, self.disk, self._broker_chance.randbytes, self.now_ns, Gate())
        broker.recover()
        self.broker = broker
        self.witness.broker = broker
        return broker

    def connect(self) -> SimClient:
        """A new client."""
        self.broker.now_ns = self.now_ns
        self._client_count += 1
        client = SimClient(self._client_count, self.broker.open_session("nats", "127.0.0.1", 40000))
        self.clients.append(client)
        self.note("connect", client.number)
        return client

    def disconnect(self, client: SimClient) -> None:
        """A connection ends; what was under way on it is lost."""
        self.note("disconnect", client.number)
        self.clients.remove(client)
        self._forget_requests(client)
        self.broker.now_ns = self.now_ns
        self.broker.close_session(client.session)
        self.drain()
        self.end_turn()

    def _forget_requests(self, client: SimClient) -> None:
        prefix = client.inbox + b"."
        expected = self.witness.expected
        for reply in [reply for reply in expected if reply.startswith(prefix)]:
            del expected[reply]

    # -- turns ---------------------------------------------------------------------------------------------------

    def deliver_input(self, client: SimClient, op_count: int, cut_rate: float) -> None:
        """Let some of what a client sent arrive, cut wherever chance wants."""
        self.broker.now_ns = self.now_ns
        while op_count > 0 and client.outgoing:
            op_count -= 1
            op = client.outgoing[0]
            left = len(op.data) - op.arrived
            if left > 1 and self.rng.random() < cut_rate:
                size = self.rng.randrange(1, left)
                client.session.feed(op.data[op.arrived : op.arrived + size])
                op.arrived += size
                break
            client.outgoing.popleft()
            self.note(f"client {client.number}", op.data)
            self.witness.arriving(op, self.now_ns)
            client.session.feed(op.data[op.arrived :] if op.arrived else op.data)
            self.witness.arrived(op, self.now_ns)
            if self.broker.dirty_sessions or not isinstance(op, PublishOp):
                self.drain()
        self.end_turn()

    def drain(self) -> None:
        """Take what the broker has written, look at it and pass it on."""
        broker = self.broker
        while broker.dirty_sessions:
            dirty = broker.dirty_sessions
            broker.dirty_sessions = []
            frames: list[Frame] = []
            by_session = {client.session.session_id: client for client in self.clients}
            for session in dirty:
                data = session.take_output()
                client = by_session.get(session.session_id)
                if session.closing and client is not None:
                    raise Violation(f"the broker closed a connection: {session.close_reason}")
                found = read_frames(data)
                frames += found
                if client is not None:
                    client.mailbox.extend(found)
            self.witness.saw(frames, self.now_ns)

    def end_turn(self) -> None:
        """What an edge does at the end of a turn: settle, begin a commit; then everything is compared."""
        broker = self.broker
        broker.settle()
        self.witness.settled()
        self.drain()
        if self.commit is None:
            self.commit = broker.commit_ready()
            if self.commit is not None:
                self.witness.collected(self.commit)
                self.note("commit begins", f"{len(self.commit.ops)} operations")
            self.drain()
        if self.swarm.commits_at_once and self.commit is not None:
            self.finish_commit()
        else:
            self.compare()

    def compare(self) -> None:
        """The broker's books against the models."""
        if self.broker.failures:
            raise self.broker.failures[0].error
        deep = self.step_count % DEEP_EVERY == 0
        recounts.check_all(self.witness, self.now_ns, deep=deep)

    # -- the disk ------------------------------------------------------------------------------------------------

    def finish_commit(self) -> None:
        """The commit under way ends, well or not."""
        commit = self.commit
        if commit is None:
            return
        error = self._perform(commit)
        self.note("commit ends", error)
        self.commit = None
        self.broker.now_ns = self.now_ns
        self.witness.committing()
        self.broker.commit_done(commit, error)
        if error and commit.repair is not None:
            self.witness.repair_failed()
        elif error:
            # The commit includes streams that changed after it began. A stream that was deleted and made again has a
            # new object under the old name, which this commit does not concern.
            current = self.witness.jetstream.streams
            touched = {stream.name for stream in commit.streams if current.get(stream.name) is stream}
            self.witness.commit_failed(touched, self.now_ns)
        else:
            self.witness.committed()
        self.drain()
        self.end_turn()

    def _perform(self, commit: PendingCommit) -> str:
        """Do what the commit asks; why not, if the disk fails."""
        ops = commit.ops
        victim = -1
        if self.faults_on and ops and self.swarm.fault_rate > 0 and self.rng.random() < self.swarm.fault_rate:
            victim = self.rng.randrange(len(ops))
        try:
            for position, op in enumerate(ops):
                if position == victim:
                    if self.rng.random() < 0.5:
                        self._perform_torn(op)
                    number = self.rng.choice((errno.ENOSPC, errno.EIO))
                    self.disk.fail_when = lambda _, number=number: number
                self.disk.perform(op)
                commit.performed_count += 1
        except OSError as failure:
            self.disk.fail_when = None
            return f"{failure.strerror}: {failure.filename}"
        return ""

    def _perform_torn(self, op: DiskOp) -> None:
        """Only some of an operation happens."""
        if op.kind == APPEND and op.data:
            torn = op.data[: self.rng.randrange(len(op.data))]
            self.disk.perform(DiskOp(APPEND, op.path, torn))
        else:
            self.disk.perform_partly(op)

    # -- faults --------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The process dies in the middle of whatever it was doing, perhaps with the whole machine."""
        takes_power = self.rng.random() < self.swarm.power_loss_share
        ops = self.commit.ops if self.commit is not None else []
        done = self.rng.randrange(len(ops) + 1)
        self.note("power fails" if takes_power else "kill -9", f"{done} of {len(ops)} operations done")
        with contextlib.suppress(OSError):
            for op in ops[:done]:
                self.disk.perform(op)
            if done < len(ops):
                self._perform_torn(ops[done])
        if takes_power:
            self.disk.crash()
        is_certain = self.swarm.sync_always or not takes_power
        self._restarted("power loss" if takes_power else "kill", is_certain=is_certain)

    def restart(self) -> None:
        """A clean stop and a new start."""
        self.note("restart")
        self.broker.now_ns = self.now_ns
        if self.commit is not None:
            self.finish_commit()
        self.broker.shutdown()
        self.end_turn()
        while self.commit is not None:
            self.finish_commit()
        rots = self.rng.random() < self.swarm.rot_share and self._rot()
        self._restarted("restart after rot" if rots else "restart", is_certain=not rots)

    def _rot(self) -> bool:
        """One bit of a block becomes another, in a place chance chooses; False when there is nothing to rot."""
        blocks = [path for path, file in self.disk.files.items() if path.endswith(".blk") and file.content]
        if not blocks:
            return False
        path = self.rng.choice(blocks)
        position = self.rng.randrange(len(self.disk.files[path].content))
        self.note("rot", f"{path} at {position}")
        self.disk.flip_bit(path, position, self.rng.randrange(8))
        return True

    def _restarted(self, how: str, *, is_certain: bool) -> None:
        self.commit = None
        self.clients = []
        self._start()
        self.witness.count(how)
        aftermath.take_stock(self.witness, is_certain=is_certain)
        recounts.check_all(self.witness, self.now_ns, deep=True)
        self.end_turn()

    def fill_disk(self) -> None:
        """Almost no room is left."""
        self.disk.capacity_bytes = self.disk.used_bytes() + self.rng.choice((1, 60, 1000))
        self.note("the disk is full", self.disk.capacity_bytes)

    def empty_disk(self) -> None:
        """There is room again."""
        self.disk.capacity_bytes = 0
        self.note("the disk has room")

    def set_clock_back(self) -> None:
        """The machine's clock is set back a little."""
        for known in self.witness.streams.values():
            for consumer in known.model.consumers.values():
                consumer.note_due(self.now_ns)
        self.now_ns -= self.rng.randrange(300_000_000)
        self.note("clock set back")

    def stall(self, client: SimClient) -> None:
        """A client stops reading, or goes on."""
        session = client.session
        client.is_stalled = not client.is_stalled
        session.buffered_bytes = DELIVERY_HIGH_WATER if client.is_stalled else 0
        self.note("stall" if client.is_stalled else "go on", client.number)
        if not client.is_stalled:
            self.broker.now_ns = self.now_ns
            session.drained()
            self.drain()
            self.end_turn()

    # -- time ----------------------------------------------------------------------------------------------------

    def advance(self, duration_ns: int, *, on_time: bool) -> None:
        """Let time pass; timers fire at their moment, or all together at the end as after a pause of the process."""
        target_ns = self.now_ns + duration_ns
        # When messages expire among other timers, the order matters to what is right.
        on_time = on_time or recounts.will_expire(self.witness, target_ns)
        self.note("advance", f"{duration_ns / 1e6} ms{'' if on_time else ' at once'}")
        while on_time:
            due_ns = int(self.broker.next_wake_ns())
            if due_ns == 0 or due_ns > target_ns:
                break
            self.now_ns = max(self.now_ns, due_ns)
            self._wake(on_time)
        self.now_ns = target_ns
        self._wake(on_time)

    def _wake(self, on_time: bool) -> None:
        self.broker.now_ns = self.now_ns
        self.broker.wake()
        for known in self.witness.streams.values():
            self.witness.notice_consumers(known, self.now_ns)
        recounts.mark_leaving(self.witness, self.now_ns)
        self.drain()
        recounts.accept_expired(self.witness, self.now_ns, on_time=on_time)
        self.end_turn()
