"""The docstring of a package is its map: a module that is not on it is not found."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

import criogen_threads

PACKAGES = ["admin", "agents", "api", "engine", "engine.journal", "streaming", "threads"]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_module_is_on_the_map_of_its_package(name: str) -> None:
    package = import_module(f"criogen_threads.{name}")
    modules = {module.name for module in iter_modules(package.__path__)}
    assert modules
    assert {module for module in modules if f"``{module}``" not in (package.__doc__ or "")} == set()


def test_every_room_is_on_the_map_of_the_whole() -> None:
    rooms = {module.name for module in iter_modules(criogen_threads.__path__) if module.ispkg} - {"migrations"}
    assert {room for room in rooms if f"``{room}``" not in (criogen_threads.__doc__ or "")} == set()
