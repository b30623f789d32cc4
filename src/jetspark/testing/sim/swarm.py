"""How wild one run is: each seed draws its own rates, so that some runs are calm and others all trouble."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

# What may happen in one step, and how often it does in an average run.
ACTIONS: dict[str, float] = {
    "publish": 12,
    "pull": 12,
    "ack": 16,
    "deliver input": 45,
    "read": 14,
    "finish commit": 25,
    "advance": 10,
    "make stream": 0.8,
    "make consumer": 2,
    "update stream": 0.3,
    "update consumer": 0.3,
    "delete stream": 0.15,
    "delete consumer": 0.4,
    "purge": 0.5,
    "delete message": 1,
    "get message": 1,
    "stream info": 1,
    "control consumer": 0.5,
    "listen": 1.5,
    "connect": 0.8,
    "disconnect": 0.4,
    "stall": 0.4,
    "fill disk": 0.1,
    "empty disk": 0.5,
    "set clock back": 0.1,
}


FAULTS = ("fill disk", "empty disk", "set clock back")


@dataclass(frozen=True, slots=True)
class Swarm:
    """The rates of one run."""

    actions: tuple[str, ...]
    weights: tuple[float, ...]
    # Per step.
    crash_rate: float
    restart_rate: float
    # Per commit.
    fault_rate: float
    # Of crashes, those that take unsynced writes with them.
    power_loss_share: float
    file_share: float
    client_max: int
    stream_max: int
    consumer_max: int
    cut_rate: float
    # Ends of steps in time: the longest, in milliseconds.
    advance_max_ms: int
    payload_max: int
    # Sync before every acknowledgement; without it a power failure may take the newest messages.
    sync_always: bool
    # Of clean restarts, those after which one bit of a block is another.
    rot_share: float
    has_byte_limits: bool = True
    # A commit is done within the turn that asked for it.
    commits_at_once: bool = False


def draw(rng: Random) -> Swarm:
    """The rates for a seed."""
    factors = (0.0, 0.3, 1.0, 1.0, 1.0, 3.0)
    needed = {"publish", "deliver input", "finish commit", "read", "make stream", "make consumer", "connect"}
    weights = []
    for name, weight in ACTIONS.items():
        factor = rng.choice(factors)
        weights.append(weight * (max(factor, 0.3) if name in needed else factor))
    return Swarm(
        actions=tuple(ACTIONS),
        weights=tuple(weights),
        crash_rate=rng.choice((0.0, 0.0, 0.002, 0.01)),
        restart_rate=rng.choice((0.0, 0.001, 0.003)),
        fault_rate=rng.choice((0.0, 0.0, 0.0, 0.02, 0.2)),
        power_loss_share=rng.choice((0.0, 0.5, 1.0)),
        file_share=rng.choice((0.5, 1.0, 1.0, 0.0)),
        client_max=rng.choice((1, 2, 3, 5)),
        stream_max=rng.choice((1, 1, 2, 3)),
        consumer_max=rng.choice((1, 2, 4)),
        cut_rate=rng.choice((0.0, 0.1, 0.5)),
        advance_max_ms=rng.choice((5, 200, 3000)),
        payload_max=rng.choice((80, 80, 80, 8000)),
        sync_always=rng.random() < 0.9,
        rot_share=rng.choice((0.0, 0.0, 0.0, 0.5)),
    )


def calm(swarm: Swarm, *, file_share: float) -> Swarm:
    """The same run without faults, with commits that take no time, and nothing that depends on sizes in bytes."""
    return replace(
        swarm,
        weights=tuple(
            0.0 if name in FAULTS else weight for name, weight in zip(swarm.actions, swarm.weights, strict=True)
        ),
        crash_rate=0.0,
        restart_rate=0.0,
        fault_rate=0.0,
        file_share=file_share,
        sync_always=True,
        # Where bytes are cut depends on how many there are.
        cut_rate=0.0,
        has_byte_limits=False,
        commits_at_once=True,
    )
