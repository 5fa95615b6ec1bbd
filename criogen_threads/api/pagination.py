"""Pages: ``{"results": […], "next": address or null}``, along one unique column or along a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from django.utils.http import urlencode

from criogen_threads.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import Model, QuerySet
    from rest_framework.request import Request

    M = TypeVar("M", bound=Model)

LIMIT = 50
MOST = 200
MOST_LOOKED_AT = 1_000
"""Rows that one request looks at where some of them are left out only after they are read."""


def limit_of(request: Request) -> int:
    """``?limit=``: rows on a page, 1 to 200. Default 50.

    Raises:
        InvalidOptionError: ``invalid_option``.
    """
    value = number(request, "limit", LIMIT)
    if not 1 <= value <= MOST:
        raise InvalidOptionError(f"limit is a number from 1 to {MOST}")
    return value


def number(request: Request, name: str, default: int) -> int:
    """A whole number from the query.

    Raises:
        InvalidOptionError: ``invalid_option``.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidOptionError(f"{name} is a whole number")
    return int(text)


def flag(request: Request, name: str) -> bool:
    """Whether the query asks for something: ``1`` or ``true``.

    Raises:
        InvalidOptionError: ``invalid_option``.
    """
    text = request.query_params.get(name, "0")
    if text not in ("0", "1", "false", "true"):
        raise InvalidOptionError(f"{name} is true or false")
    return text in ("1", "true")


def page(request: Request, results: list[Any], **cursor: Any) -> dict[str, Any]:
    """A page; ``cursor`` names the parameter that continues it, with a value of None at the end."""
    [(name, value)] = cursor.items()
    if value is None:
        return {"results": results, "next": None}
    query = {key: str(each) for key, each in request.query_params.items()}
    address = f"{request.build_absolute_uri(request.path)}?{urlencode({**query, name: str(value)})}"
    return {"results": results, "next": address}


def walk(
    rows: QuerySet[M], after: Any, limit: int, *, descending: bool = False, keep: Callable[[M], bool] | None = None
) -> tuple[list[M], Any]:
    """The next rows by primary key, and the key to go on from (None: there are no more).

    Args:
        after: The key to go on from; None from the start.
        keep: Leaves rows out after they are read; so a page may be short, or empty, and still not be the last.
    """
    rows = rows.order_by("-pk" if descending else "pk")
    found: list[M] = []
    looked = 0
    while looked < MOST_LOOKED_AT:
        here = rows if after is None else rows.filter(**{"pk__lt" if descending else "pk__gt": after})
        batch = list(here[: limit + 1])
        for row in batch[:limit]:
            if keep is None or keep(row):
                found.append(row)
            after = row.pk
            if len(found) == limit:
                break
        more = bool(batch) and after != batch[-1].pk
        if not more or len(found) == limit:
            return found, after if more else None
        looked += limit
    return found, after
