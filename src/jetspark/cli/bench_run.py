"""Running the clients of a benchmark: one in this process, several in processes of their own.

Decided here: clients connect and prepare first and start together; several run as processes because threads of one
Python would wait for each other and the client would be what is measured. A worker gets its orders as JSON lines on
stdin (the plan, `go`, `stop`) and answers with JSON lines on stdout (`ready`, counts, its result or its error); when
its stdin ends it stops. Not known here: what a client does, and how results are shown.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import msgspec

from jetspark.cli.bench_job import Meter
from jetspark.cli.bench_jobs import JOBS
from jetspark.cli.bench_numbers import ClientResult, Outcome
from jetspark.cli.bench_plan import SHARES_AS_IT_COMES, Kind, Plan
from jetspark.cli.connect import connect_options
from jetspark.cli.context import Settings
from jetspark.cli.errors import CliError
from jetspark.clock import SystemClock
from jetspark.errors import JetsparkError
from jetspark.sync import Connection, connect

STOP_TIMEOUT_S: Final = 5.0
WORKER_COMMAND: Final = ("-m", "jetspark.cli.bench_run")

Report = Callable[[int], None]


def open_connection(plan: Plan) -> Connection:
    """The connection of one client, from the settings in the plan."""
    return connect(**connect_options(Settings(**plan.connection)))


def run(plan: Plan, report: Report) -> Outcome:
    """Run every client; `report` gets how many messages are done in all, now and then."""
    if plan.client_count == 1:
        return Outcome([_run_here(plan, 0, report, lambda: None, lambda: False)])
    return Outcome(_Workers(plan, report).run())


def _run_here(
    plan: Plan, client: int, report: Report, wait_for_start: Callable[[], None], is_stopped: Callable[[], bool]
) -> ClientResult:
    meter = Meter(SystemClock(), report, duration_s=plan.duration_s)
    with open_connection(plan) as connection:
        job = JOBS[plan.kind](plan, client, connection, meter, is_stopped)
        job.prepare()
        wait_for_start()
        job.run()
    report(meter.count)
    return meter.result()


class _Workers:
    """The processes of one run."""

    def __init__(self, plan: Plan, report: Report) -> None:
        self._plan = plan
        self._report = report
        self._processes: list[subprocess.Popen[bytes]] = []
        self._listeners: list[threading.Thread] = []
        self._answers: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        self._counts = [0] * plan.client_count
        self._results: dict[int, ClientResult] = {}
        self._ready_count = 0
        self._is_asked = False

    def run(self) -> list[ClientResult]:
        """Start, wait, collect; whatever happens no process is left."""
        with ExitStack() as stack:
            for client in range(self._plan.client_count):
                stack.enter_context(self._start(client))
                stack.callback(_end, self._processes[-1], self._listeners[-1])
            while len(self._results) < self._plan.client_count:
                self._wait()
        return [self._results[client] for client in range(self._plan.client_count)]

    def _wait(self) -> None:
        """For the next answer. Ctrl-C is how serving ends: the first time the clients are asked for what they have."""
        try:
            client, answer = self._answers.get()
        except KeyboardInterrupt:
            if self._plan.kind is not Kind.SERVE or self._is_asked or self._ready_count < self._plan.client_count:
                raise
            self._is_asked = True
            self._tell_all(b"stop")
            return
        self._take(client, answer)

    def _start(self, client: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, *WORKER_COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._processes.append(process)
        _tell(process, msgspec.json.encode({"client": client, "plan": self._plan}))
        name = f"benchmark client {client + 1}"
        listener = threading.Thread(target=self._listen, args=(client, process), name=name, daemon=True)
        listener.start()
        self._listeners.append(listener)
        return process

    def _listen(self, client: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        # `bufsize=0` leaves the pipe raw; lines are read through a buffer of our own.
        with open(process.stdout.fileno(), "rb", closefd=False) as lines:
            for line in lines:
                # Without an end it is what a worker was saying when it was ended.
                if line.endswith(b"\n"):
                    self._answers.put((client, msgspec.json.decode(line)))
        self._answers.put((client, None))

    def _take(self, client: int, answer: dict[str, Any] | None) -> None:
        if answer is None:
            if client not in self._results:
                raise CliError(f"benchmark client {client + 1} ended without a result")
        elif "ready" in answer:
            self._ready_count += 1
            if self._ready_count == self._plan.client_count:
                self._tell_all(b"go")
        elif "done" in answer:
            self._counts[client] = answer["done"]
            self._report(sum(self._counts))
            if self._plan.kind in SHARES_AS_IT_COMES and 0 < self._plan.total_count <= sum(self._counts):
                self._tell_all(b"stop")
        elif "result" in answer:
            self._results[client] = msgspec.convert(answer["result"], ClientResult)
        else:
            raise CliError(f"benchmark client {client + 1}: {answer['error']}", exit_code=int(answer["exit_code"]))

    def _tell_all(self, line: bytes) -> None:
        for client, process in enumerate(self._processes):
            if client not in self._results:
                _tell(process, line)


def _tell(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(line + b"\n")
    except BrokenPipeError:
        # It ended by itself; what it said, or that it said nothing, is read by its listener.
        return


def _end(process: subprocess.Popen[bytes], listener: threading.Thread) -> None:
    """A worker whose stdin is closed ends by itself; one that does not is ended.

    Its stdout is closed after this, so nobody may be reading it then: the number may soon be another file's.
    """
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    listener.join()


def main() -> None:
    """A worker: one client, told what to do on stdin."""
    # Ctrl-C reaches every process of a terminal; the first one decides what it means, and tells.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Raw: a thread that waits in a buffered stdin would keep the interpreter from ending.
    orders = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115 - it is never closed
    stopped = threading.Event()
    order = msgspec.json.decode(orders.readline())
    plan = msgspec.convert(order["plan"], Plan)

    def say(**answer: Any) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()

    def watch() -> None:
        if not orders.readline():
            # Nobody is there to be told a result: end now, in the middle of whatever it is.
            os._exit(1)
        stopped.set()

    def wait_for_start() -> None:
        say(ready=True)
        if not orders.readline():
            sys.exit(0)
        threading.Thread(target=watch, daemon=True).start()

    try:
        result = _run_here(plan, order["client"], lambda count: say(done=count), wait_for_start, stopped.is_set)
    except JetsparkError as error:
        from jetspark.cli.errors import exit_code_of

        say(error=str(error), exit_code=exit_code_of(error))
        sys.exit(1)
    say(result=result)


if __name__ == "__main__":
    main()
