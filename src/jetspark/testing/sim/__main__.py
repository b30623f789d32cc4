"""`python -m jetspark.testing.sim`: run seeds for a while, or one seed again."""

from __future__ import annotations

import secrets
import sys
import time

import click

from jetspark.testing.sim.run import STEPS, Result, run_seed


@click.command()
@click.option("--seconds", default=30.0, show_default=True, help="Start new seeds for this long.")
@click.option("--seed", default=0, help="Run this one seed instead.")
@click.option("--first", default=0, help="The first seed; chance chooses it otherwise.")
@click.option("--steps", default=STEPS, show_default=True, help="Steps of each seed.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first failure.")
def main(seconds: float, seed: int, first: int, steps: int, keep_going: bool) -> None:
    """The broker in the simulator."""
    started = time.monotonic()
    results: list[Result] = []
    seeds = [seed] if seed else None
    current = first or secrets.randbelow(1 << 40) + 1
    while seeds or (seeds is None and time.monotonic() - started < seconds):
        result = run_seed(seeds.pop() if seeds else current, steps)
        current += 1
        results.append(result)
        if result.failure:
            click.echo(result.failure)
            if not keep_going:
                break
    spent = time.monotonic() - started
    report(results, spent)
    sys.exit(any(result.failure for result in results))


def report(results: list[Result], spent_s: float) -> None:
    """What was run, and how much of what happened."""
    totals: dict[str, int] = {}
    for result in results:
        for what, count in result.counts.items():
            totals[what] = totals.get(what, 0) + count
    for what in sorted(totals):
        click.echo(f"  {totals[what]:>9} {what}")
    failed = [result.seed for result in results if result.failure]
    step_count = sum(result.step_count for result in results)
    click.echo(
        f"{len(results)} seeds, {step_count} steps in {spent_s:.1f} s ({60 * step_count / spent_s:,.0f} a minute), "
        f"{len(failed)} failed{': ' + ' '.join(map(str, failed)) if failed else ''}"
    )


if __name__ == "__main__":
    main()
