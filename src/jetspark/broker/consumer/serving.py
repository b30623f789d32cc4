"""Messages to waiting pull requests: who is next, what each one costs it, and when a request ends.

Not known here: how requests are kept in order (`pull_queue`) and how a message is written (`writing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.broker.consumer import writing
from jetspark.broker.consumer.outcomes import NOT_YET, PICKED, STALLED
from jetspark.broker.consumer.pull_queue import MAX_WAITING, NO_MESSAGES, REQUESTS_PENDING, WaitingPull, first_target
from jetspark.broker.interest import Subscription
from jetspark.protocol import headers

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer


def serve_pulls(consumer: Consumer) -> None:
    pulls = consumer.pulls
    while pulls.waiting:
        pull = next_pull(consumer)
        if pull is None:
            break
        target = first_target(pull.route)
        if target is not None and not target.session.has_room():
            consumer.wait_for_drain(target.session)
            break
        outcome = consumer.pick()
        if outcome == PICKED:
            serve(consumer, pull, target)
        elif outcome in (STALLED, NOT_YET):
            break
        else:
            pulls.end_no_wait()
            break
    if not pulls.waiting:
        consumer.wants_messages = False


def next_pull(consumer: Consumer) -> WaitingPull | None:
    """The first request that may be served now; dead ones are dropped, unfit ones wait behind the others."""
    pulls = consumer.pulls
    now_ns = consumer.broker.now_ns
    first = pulls.waiting[0]
    if not consumer.pinning.is_needed and not 0 < first.expires_at_ns <= now_ns and pulls.has_interest(first):
        return first
    turns = len(pulls.waiting)
    passed_over: list[WaitingPull] = []
    found: WaitingPull | None = None
    while turns > 0 and pulls.waiting:
        turns -= 1
        pull = pulls.waiting[0]
        if 0 < pull.expires_at_ns <= now_ns:
            pulls.waiting.pop(0)
            pulls.send_timeout(pull)
        elif not pulls.has_interest(pull):
            pulls.waiting.pop(0)
        elif not consumer.pinning.is_needed:
            found = pull
            break
        else:
            fit = consumer.pinning.fits(pull)
            if fit > 0:
                found = pull
                break
            pulls.waiting.pop(0)
            if fit == 0:
                passed_over.append(pull)
    for pull in passed_over:
        pulls.add(pull)
    return found


def serve(consumer: Consumer, pull: WaitingPull, target: Subscription | None) -> None:
    """Give the picked message to a request, and end the request when that was its last."""
    if pull.has_byte_budget and not fits_budget(consumer, pull):
        return
    if target is not None and target.session.permissions is None:
        session = target.session
        writing.write(consumer, session.out, target, pull)
        view = consumer.view
        session.count_delivery(target, view.header_size if consumer.headers_only else view.header_size + view.body_size)
        if not session.is_dirty:
            session.mark_dirty()
    else:
        writing.fan_out(consumer, pull.reply, pull)
    pull.delivered += 1
    pull.left -= 1
    pull.reported_left -= 1
    if pull.heartbeat_ns > 0:
        pull.heartbeat_at_ns = consumer.broker.now_ns + pull.heartbeat_ns
    if pull.left <= 0:
        consumer.pulls.remove(pull)
        if pull.has_byte_budget and pull.bytes_left > 0:
            pairs = pull.remaining_headers()
            consumer.pulls.send(pull, headers.status_block(409, b"Batch Completed", pairs))
    elif pull.has_byte_budget and pull.bytes_left <= 0:
        consumer.pulls.remove(pull)
    else:
        consumer.pulls.rotate()


def fits_budget(consumer: Consumer, pull: WaitingPull) -> bool:
    """Byte budget of a request; a message over it ends the request without being sent."""
    size = writing.delivery_size(consumer)
    if size > pull.bytes_left:
        consumer.unpick()
        consumer.pulls.remove(pull)
        consumer.pinning.release_claim(pull)
        pairs = pull.remaining_headers()
        consumer.pulls.send(pull, headers.status_block(409, b"Message Size Exceeds MaxBytes", pairs))
        return False
    pull.bytes_left -= size
    return True


def enqueue(consumer: Consumer, pull: WaitingPull, is_silent_when_full: bool) -> None:
    """A checked request: answer it at once if it will not wait, else let it wait its turn."""
    pulls = consumer.pulls
    waiting_max = consumer.config.max_waiting if consumer.config.max_waiting > 0 else 512
    has_place = pulls.make_room(waiting_max)
    if pull.no_wait:
        pending = consumer.num_pending() + len(consumer.redelivery.queue)
        if pending <= 0 and pull.expires_at_ns == 0:
            pulls.send(pull, NO_MESSAGES)
            return
        claimed = pulls.claimed() if pulls.waiting else 0
        if pending > 0 and pending <= claimed:
            pulls.send(pull, REQUESTS_PENDING)
            return
    if not has_place:
        if not is_silent_when_full:
            pulls.send(pull, MAX_WAITING)
        return
    pulls.add(pull)
    consumer.wants_messages = True
    consumer.arm_pull_timer()
    consumer.deliver()
