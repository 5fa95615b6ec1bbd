"""What the README names is there, and its tables are whole."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from django.urls import resolve

from criogen_threads import conf, errors
from criogen_threads.agents import Tool
from tests.processes import ROOT
from tests.readme.support import README

if TYPE_CHECKING:
    from types import ModuleType


def test_the_addresses_of_the_table_exist(site: dict[str, ModuleType]) -> None:
    table = README.partition("| below `/api/` |")[2].partition("\n\n")[0]
    addresses = [address for cell in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
                 for address in re.findall(r"([^ `]+/)`", cell)]  # fmt: skip
    assert len(addresses) >= 20
    for address in addresses:
        resolve(f"/api/{address.replace('…/', 'threads/KEY/')}", urlconf=site["mysite/urls.py"])


def test_the_table_of_tools_has_every_option() -> None:
    table = README.partition("| option of `@tool` |")[2].partition("\n\n")[0]
    options = set(inspect.signature(Tool.__init__).parameters) - {"self", "function"}
    assert set(re.findall(r"`(\w+)=", table)) == options


def test_the_codes_and_settings_that_it_names_exist() -> None:
    codes = {cls.code for cls in errors.CriogenError.__subclasses__()}
    states = README.partition("## The states of a conversation")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([a-z]+_[a-z_]+)`", states)) - {"on_busy", "client_id"} - {"criogen_recover"} <= codes
    running = README.partition("## Running it for real")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([A-Z]+_[A-Z_]+)`", running)) - {"CONN_MAX_AGE"} <= conf.KEYS


def test_the_files_and_sections_that_it_points_to_exist() -> None:
    for path in re.findall(r"`((?:criogen_threads|project)/[\w./]*)`", README):
        assert (ROOT / path).exists(), path
    anchors = {
        line[3:].lower().replace(",", "").replace(" ", "-") for line in README.splitlines() if line.startswith("## ")
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", README)) <= anchors
