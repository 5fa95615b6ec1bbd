"""``docs/reference.md`` is that of the code, and has everything once."""

from __future__ import annotations

import re

from django.apps import apps

from criogen_threads import conf
from criogen_threads.management.commands.criogen_groups import OPERATOR
from criogen_threads.problems import STATUS
from criogen_threads.streaming.consumers import CLOSE
from docs.reference import ALLOWS, FILE, PACKAGE, asked_for, error_classes, reference


def test_the_reference_is_that_of_the_code() -> None:
    assert FILE.read_text() == reference(), "it is written anew by python -m docs.reference"
    assert {f"`{key}`" for key in conf.KEYS} <= set(re.findall(r"`\w+`", reference()))


def test_every_code_stands_in_the_reference_once() -> None:
    page = reference().partition("## Errors")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert len(told) == len(set(told))
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    written = set(re.findall(r'^    code(?:: [^=]+)? = "(\w+)"', sources, re.MULTILINE))
    assert written - {"error"} == {cls.code for cls in error_classes()} <= set(told)
    assert {*STATUS, *CLOSE} <= set(told)
    for code in ("authentication_failed", "not_found", "parse_error", "method_not_allowed", "throttled"):
        assert code in told


def test_every_permission_that_is_asked_for_stands_in_the_reference() -> None:
    declared = {name for model in apps.get_app_config("criogen_threads").get_models()
                for name, _ in model._meta.permissions}  # fmt: skip
    assert asked_for() == set(ALLOWS) >= {*declared, *OPERATOR}
