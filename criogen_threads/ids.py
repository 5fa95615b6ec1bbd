"""Ids that leave the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uuid_utils.compat import uuid7

if TYPE_CHECKING:
    from uuid import UUID


def new_id() -> UUID:
    """A UUIDv7: made here, so that the rows of one save can refer to each other before they are stored."""
    return uuid7()
