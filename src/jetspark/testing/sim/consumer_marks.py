"""A consumer's state as it was given to the disk, to be compared with what a start finds there."""

from __future__ import annotations

from dataclasses import dataclass

from jetspark.store.consumer_state import ConsumerState


@dataclass(frozen=True, slots=True)
class StateCopy:
    """All of a consumer's state that must survive."""

    delivered: tuple[int, int]
    floor: tuple[int, int]
    # Stream sequence to consumer sequence, time of the latest delivery, deliveries.
    pending: dict[int, tuple[int, int, int]]
    redelivered: dict[int, int]


def copy_of(state: ConsumerState) -> StateCopy:
    """The state as it is now."""
    return StateCopy(
        (int(state.delivered_consumer_seq), int(state.delivered_stream_seq)),
        (int(state.floor_consumer_seq), int(state.floor_stream_seq)),
        {
            seq: (int(entry.consumer_seq), int(entry.delivered_ts_ns), int(entry.deliveries))
            for seq, entry in state.pending.items()
        },
        dict(state.redelivered),
    )


class ConsumerMarks:
    """The last durable state, and those sent to the disk since: one of them is what a crash leaves."""

    def __init__(self) -> None:
        self.durable: StateCopy | None = None
        self.sent: list[StateCopy] = []
        self._is_in_flight = False

    def collected(self, state: ConsumerState) -> None:
        """The state as it is now goes to the disk."""
        self.sent.append(copy_of(state))
        self._is_in_flight = True

    def committed(self) -> None:
        """A commit is done; if the last one sent was in it, that has arrived."""
        if self._is_in_flight:
            self._is_in_flight = False
            self.durable = self.sent[-1]
            self.sent = []

    def failed(self) -> None:
        """A commit was refused; some of it may be on the disk."""
        self._is_in_flight = False

    def recovered(self, state: ConsumerState) -> None:
        """What a start made of what it found is not durable yet."""
        self._is_in_flight = False
        self.sent = [*self.candidates(), copy_of(state)]
        self.durable = None

    def candidates(self) -> list[StateCopy]:
        """What may be on the disk."""
        return ([self.durable] if self.durable is not None else []) + self.sent
