"""What the package offers is exactly what it says it offers."""

import importlib
import inspect
import pkgutil

import pytest

import jetspark

MODULE_NAMES = [
    found.name
    for found in pkgutil.walk_packages(jetspark.__path__, "jetspark.")
    if not found.name.endswith(("__mypyc", "__main__"))
]


def test_the_package_offers_only_what_it_lists() -> None:
    loaded = {
        name for name, value in vars(jetspark).items() if not name.startswith("_") and not inspect.ismodule(value)
    }

    assert loaded - {"Any", "TYPE_CHECKING"} <= set(jetspark.__all__)
    assert dir(jetspark) == sorted(jetspark.__all__)


@pytest.mark.parametrize("name", jetspark.__all__)
def test_every_listed_name_is_there(name: str) -> None:
    assert getattr(jetspark, name) is not None


def test_both_faces_of_the_client_offer_the_same_names() -> None:
    assert set(jetspark.sync.__all__) == set(jetspark.__all__) - {"__version__", "serve", "serve_async", "sync"}


@pytest.mark.long
@pytest.mark.parametrize("module_name", MODULE_NAMES)
def test_modules_import_and_hold_every_name_they_list(module_name: str) -> None:
    module = importlib.import_module(module_name)

    for name in getattr(module, "__all__", []):
        assert hasattr(module, name), f"{module_name}.__all__ lists {name}, which is not there"
