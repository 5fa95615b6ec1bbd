"""Pages of tables that are too long to be counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator
from django.utils.functional import cached_property

if TYPE_CHECKING:
    AnyPaginator = Paginator[Any]
else:
    AnyPaginator = Paginator

MOST_COUNTED = 5_000
"""Rows that are counted, and so can be paged through; what lies beyond is found by filters and search."""


class BoundedPaginator(AnyPaginator):
    """Counts no further than ``MOST_COUNTED``, whatever the table holds."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:MOST_COUNTED].count())
