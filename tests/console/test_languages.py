"""The console in German: whole pages, without a sentence of the package left in English."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING

import pytest

from tests.console.test_access import PAGES, rows
from tests.test_translations import entries

if TYPE_CHECKING:
    from criogen_threads.models import ToolCall
    from tests.console.support import Staff

pytestmark = pytest.mark.django_db(transaction=True)

SHORTEST = 9
"""Characters of an English text that is looked for: shorter ones are part of other words, or German as well."""

MARKUP = re.compile(r"<script.*?</script>|<[^>]*>", re.DOTALL)


def text_of(page: str) -> str:
    """What is read of a page, titles and labels included."""
    labels = " ".join(re.findall(r'(?:aria-label|title|placeholder|value)="([^"]*)"', page))
    return " ".join(unescape(f"{MARKUP.sub(' ', page)} {labels}").split())


def english() -> list[str]:
    """Texts of the package that say something else in German."""
    return [
        one
        for one, several, translated in entries("de")
        if len(one) >= SHORTEST and " " in one and not several and "%" not in one and translated != [one]
    ]


def test_every_page_is_german(boss: Staff) -> None:
    here, left = rows(), english()
    assert len(left) > 100
    for page in [*PAGES, "/admin/", "approval/?status=all", "thread/?q=nothing"]:
        if "export" in page:
            continue
        response = boss.get(page.format(**here), headers={"Accept-Language": "de"})
        text = text_of(response.content.decode())
        assert [one for one in left if re.search(rf"\b{re.escape(one)}", text)] == [], page


def test_an_answer_is_told_in_german(call: ToolCall, boss: Staff, approver: Staff) -> None:
    page = boss.get(f"approval/{call.pk}/change/", headers={"Accept-Language": "de"}).content.decode()
    for shown in ("Freigabe von refund", "wartet auf Freigabe", "Freigeben", "Ablehnen", "Wer gefragt hat"):
        assert shown in page, shown
    data = {"verb": "reject", "digest": call.arguments_digest}
    said = boss.client.post(
        f"/admin/criogen_threads/approval/{call.pk}/answer/", data, follow=True, headers={"Accept-Language": "de"}
    )
    assert "Abgelehnt. Das Modell erfährt den Grund." in said.content.decode()
    late = approver.client.post(
        f"/admin/criogen_threads/approval/{call.pk}/answer/", data, follow=True, headers={"Accept-Language": "de"}
    )
    assert "oss hat das schon beantwortet" in late.content.decode()
