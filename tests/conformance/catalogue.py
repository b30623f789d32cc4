"""All scenarios, in the order that lets neighbours share a server."""

from __future__ import annotations

import importlib
import pkgutil

from tests.conformance import scenarios
from tests.conformance.scenario import SCENARIOS, Scenario


def ordered_scenarios() -> list[Scenario]:
    """Import every scenario module once and sort by module, then by the server it needs."""
    for module in pkgutil.iter_modules(scenarios.__path__):
        importlib.import_module(f"{scenarios.__name__}.{module.name}")
    return sorted(SCENARIOS, key=lambda item: (item.module, repr(item.server)))
