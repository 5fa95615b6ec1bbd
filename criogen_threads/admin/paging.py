"""Pages of tables that are too long to be counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.paginator import Page, Paginator
from django.utils.functional import cached_property

if TYPE_CHECKING:
    AnyPaginator = Paginator[Any]
else:
    AnyPaginator = Paginator

MOST_COUNTED = 5_000
"""Rows that are counted, and so can be paged through; what lies beyond is found by filters and search."""


class BoundedPaginator(AnyPaginator):
    """Counts no further than ``MOST_COUNTED``, whatever the table holds.

    One look at the table finds the ids of them all, and the rows of a page are read by these: to count and then to
    look for the page would look at everything twice where little is found.
    """

    @cached_property
    def _ids(self) -> list[Any]:
        rows: Any = self.object_list
        return list(rows.values_list("pk", flat=True)[:MOST_COUNTED])

    @cached_property
    def count(self) -> int:
        return len(self._ids)

    def page(self, number: int | str) -> Page[Any]:
        number = self.validate_number(number)
        start = (number - 1) * self.per_page
        rows: Any = self.object_list
        wanted = self._ids[start : start + self.per_page]
        return Page(rows.filter(pk__in=wanted), number, self)
