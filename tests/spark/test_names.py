"""What `jetspark.spark` offers is what it says, whichever of its modules were imported before."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import jetspark.spark


def test_no_module_hides_a_name_the_package_offers() -> None:
    for found in pkgutil.iter_modules(jetspark.spark.__path__):
        importlib.import_module(f"jetspark.spark.{found.name}")

    for name in jetspark.spark.__all__:
        assert not inspect.ismodule(getattr(jetspark.spark, name)), name
