"""Columns that the rows share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from criogen_threads import payload

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    AnyTextField = models.TextField[Any, Any]
else:
    AnyTextField = models.TextField


class JSONTextField(AnyTextField):
    """JSON kept as compact text: byte for byte, with NUL, on every database.

    Not ``jsonb``: that sorts keys and rewrites numbers, and a provider's prompt cache depends on both.
    """

    if TYPE_CHECKING:
        _pyi_private_set_type: Any
        _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, *_: Any) -> Any:
        return None if value is None else payload.loads(value)

    def to_python(self, value: Any) -> Any:
        return value

    def get_prep_value(self, value: Any) -> Any:
        if (value is None and self.null) or hasattr(value, "resolve_expression"):
            return value
        return payload.dumps(value)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:  # noqa: ARG002
        return value if prepared else self.get_prep_value(value)

    def value_to_string(self, obj: models.Model) -> Any:
        return self.value_from_object(obj)


def pointer(to: str, **options: Any) -> Any:
    """A reference inside one thread: no constraint and no index.

    The journal writes both ends in one transaction and deletes them together, and every such constraint would
    be looked up for each row of a deleted thread.
    """
    options = {"null": True, "blank": True, "related_name": "+", **options}
    return models.ForeignKey(to, models.DO_NOTHING, db_constraint=False, db_index=False, **options)
