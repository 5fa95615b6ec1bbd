"""The shop that the snippets add up to: an installed app, whose modules nothing imports but what a site does."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.test import override_settings

from criogen_threads import signals
from criogen_threads.agents import unregister
from criogen_threads.testing import in_calling_thread
from project.desk.demo import seed
from tests.readme.support import MODULES, SITE, snippets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The app that the snippets add up to, installed in the site; its models are those of the example site."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "models.py").write_text("from project.desk.models import Order\n")
    for place in MODULES:
        (tmp_path / place).write_text("\n".join(snippets(place)))
    monkeypatch.syspath_prepend(tmp_path)
    with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, "shop"]):
        loaded = set(sys.modules)
        assert {"shop.agents", "shop.signals"} <= loaded
        assert not {"shop.views", "shop.policy", "shop.tests"} & loaded
        for place in MODULES:
            import_module(place.removesuffix(".py").replace("/", "."))
        yield sys.modules["shop"]
    for name in ("support", "office", "porter"):
        unregister(name)
    signals.approval_requested.disconnect(sys.modules["shop.signals"].tell_staff)
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.fixture
def calling_thread(db: None) -> Iterator[None]:
    with in_calling_thread():
        seed()
        yield


@pytest.fixture
def site(shop: ModuleType) -> dict[str, ModuleType]:
    """The modules of the project, by name."""
    made = {}
    for place in SITE:
        module = made[place] = ModuleType(place.removesuffix(".py").replace("/", "."))
        for code in snippets(place):
            exec(compile(code, f"README.md: {place}", "exec"), vars(module))
    return made
