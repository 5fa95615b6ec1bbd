"""The catalogues have every text of the sources, and the compiled ones are those that are read here.

After a text has changed: ``manage.py makemessages -l de --no-location --no-wrap --no-obsolete --ignore tests`` in the
repository's folder, fill in what is new, and ``manage.py compilemessages`` there.
"""

from __future__ import annotations

import ast
import re
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from django.utils.translation.template import templatize

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "criogen_threads"
SITE = ROOT / "project"
SOURCES = {PACKAGE: [PACKAGE], SITE: [SITE, ROOT / "templates"]}
CATALOGUES = [(home, language.name) for home in SOURCES for language in sorted((home / "locale").iterdir())]

ONE = {"_", "gettext", "gettext_lazy", "gettext_noop"}
SEVERAL = {"ngettext", "ngettext_lazy"}
IN_TEMPLATES = re.compile(r"\b_\(|\bn?gettext\(")
PLACEHOLDER = re.compile(r"%\(\w+\)\.?\d*[a-z]|\{\w+\}")


class Text(NamedTuple):
    one: str
    several: str = ""


class Told(NullTranslations):
    """The end of the line: what comes here is in no catalogue."""

    def gettext(self, message: str) -> str:
        raise KeyError(message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        raise KeyError(msgid1)


def texts(home: Path = PACKAGE) -> set[Text]:
    """Everything that the package, or the site, marks for translation."""
    found = set()
    for path in _sources(home, "*.py"):
        found |= set(_marked(ast.parse(path.read_text(encoding="utf-8"))))
    for path in _sources(home, "*.html"):
        source = templatize(path.read_text(encoding="utf-8"))
        for call in IN_TEMPLATES.finditer(source):
            found |= set(_marked(ast.parse(_call_at(source, call.start()))))
    return found


def _sources(home: Path, names: str) -> Iterator[Path]:
    for folder in SOURCES[home]:
        yield from folder.rglob(names)


def _call_at(source: str, start: int) -> str:
    """The whole call that begins here: what templatize leaves around it is no Python."""
    end = start
    while True:
        end = source.index(")", end) + 1
        try:
            ast.parse(source[start:end])
        except SyntaxError:
            continue
        return source[start:end]


def _marked(tree: ast.AST) -> Iterator[Text]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            given = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if node.func.id in ONE and given:
                yield Text(given[0])
            elif node.func.id in SEVERAL:
                yield Text(*given[:2])


def entries(language: str, home: Path = PACKAGE) -> Iterator[tuple[str, str, list[str]]]:
    """Each entry of a catalogue as people edit it: the text, its plural, and what stands for them."""
    source = (home / "locale" / language / "LC_MESSAGES" / "django.po").read_text(encoding="utf-8")
    assert "#, fuzzy" not in source
    assert "#~" not in source
    for block in source.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            head, quote, rest = line.partition('"')
            name = head.strip() or name
            fields[name] = fields.get(name, "") + ast.literal_eval(quote + rest)
        if fields.get("msgid"):
            translated = [text for key, text in fields.items() if key.startswith("msgstr")]
            yield fields["msgid"], fields.get("msgid_plural", ""), translated


def compiled(language: str, home: Path) -> GNUTranslations:
    with (home / "locale" / language / "LC_MESSAGES" / "django.mo").open("rb") as file:
        catalogue = GNUTranslations(file)
    catalogue.add_fallback(Told())
    return catalogue


def test_the_sources_are_read() -> None:
    found = texts()
    assert Text("Run cancelled by user") in found  # Python
    assert Text("You may not read the conversation around it.") in found  # {% translate %}
    assert Text("%(n)s message", "%(n)s messages") in found  # {% blocktranslate count %}
    assert Text("nobody") in found  # _("…") in a filter
    assert Text("How can we help?") in texts(SITE)


@pytest.mark.parametrize(("home", "language"), CATALOGUES)
def test_a_catalogue_is_complete(home: Path, language: str) -> None:
    catalogue, missing = compiled(language, home), []
    for text in sorted(texts(home)):
        try:
            _ = catalogue.ngettext(*text, 2) if text.several else catalogue.gettext(text.one)
        except KeyError:
            missing.append(text)
    assert missing == []


@pytest.mark.parametrize(("home", "language"), CATALOGUES)
def test_a_catalogue_has_nothing_that_is_said_no_more_and_keeps_every_placeholder(home: Path, language: str) -> None:
    said = texts(home)
    for one, several, translated in entries(language, home):
        assert Text(one, several) in said
        for text in translated:
            assert text, one
            assert sorted(PLACEHOLDER.findall(text)) == sorted(PLACEHOLDER.findall(several or one)), one


@pytest.mark.parametrize(("home", "language"), CATALOGUES)
def test_what_is_compiled_is_what_is_edited(home: Path, language: str) -> None:
    catalogue = compiled(language, home)
    for one, several, translated in entries(language, home):
        if several:
            assert [catalogue.ngettext(one, several, n) for n in (1, 2)] == translated
        else:
            assert [catalogue.gettext(one)] == translated
