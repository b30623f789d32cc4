"""Running seeds: one at a time, each whole; a failure says how to see it again."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from jetspark.testing.sim import swarm
from jetspark.testing.sim.consumer_marks import copy_of
from jetspark.testing.sim.liveness import come_to_rest
from jetspark.testing.sim.recounts import live_messages
from jetspark.testing.sim.workload import Workload
from jetspark.testing.sim.world import World
from jetspark.testing.sim_disk import SimDisk

STEPS = 400


@dataclass(slots=True)
class Result:
    """What one seed came to."""

    seed: int
    step_count: int
    counts: dict[str, int] = field(default_factory=dict)
    failure: str = ""
    digest: int = 0
    content: dict[str, object] = field(default_factory=dict)


def run_seed(seed: int, steps: int = STEPS, make_disk: Callable[[Random], SimDisk] = SimDisk) -> Result:
    """Run one seed; a broken promise, or any error of the broker's, is in the result."""
    rng = Random(seed)
    world = World(rng, swarm.draw(rng), make_disk)
    return run_world(world, seed, steps)


def run_twins(seed: int, steps: int = STEPS) -> tuple[Result, Result]:
    """The same clients doing the same things, without faults: once on files, once in memory."""
    results: list[Result] = []
    for file_share in (1.0, 0.0):
        rng = Random(seed)
        world = World(rng, swarm.calm(swarm.draw(rng), file_share=file_share))
        result = run_world(world, seed, steps)
        result.content = content(world)
        results.append(result)
    return results[0], results[1]


def content(world: World) -> dict[str, object]:
    """What streams hold and where consumers stand."""
    found: dict[str, object] = {}
    for name, stream in world.witness.jetstream.streams.items():
        model = world.witness.streams[name].model
        found[name] = list(live_messages(stream, model).values())
        for consumer in stream.consumers.values():
            found[f"{name} > {consumer.name}"] = copy_of(consumer.state)
    return found


def run_world(world: World, seed: int, steps: int) -> Result:
    """Let clients and faults loose on a world, then see that it comes to rest."""
    workload = Workload(world)
    result = Result(seed, 0, world.witness.counts)
    try:
        for _ in range(steps):
            workload.step()
        come_to_rest(world)
    except Exception:  # noqa: BLE001 - whatever the broker raises is a finding
        result.failure = describe(world, seed, steps)
    result.step_count = world.step_count
    result.digest = world.digest
    return result


def describe(world: World, seed: int, steps: int) -> str:
    """The failure, the last steps before it, and how to see it again."""
    lines = [f"seed {seed} failed at step {world.step_count}; the last steps before it:"]
    for now_ns, what, detail in world.trace:
        text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        lines.append(f"  {now_ns} {what}: {text.strip()[:180]!r}")
    lines.append(traceback.format_exc())
    options = "" if steps == STEPS else f' ARGS="--steps {steps}"'
    lines.append(
        f"again: make sim SEED={seed}{options}   (python -m jetspark.testing.sim --seed {seed} --steps {steps})"
    )
    return "\n".join(lines)
