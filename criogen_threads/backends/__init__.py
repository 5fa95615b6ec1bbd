"""Backends send one request to a model; ``resolve`` makes one of what an agent names as its model.

``base`` says what a backend is; ``pydantic_ai`` knows every provider, ``scripted`` answers offline.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured

from .base import ModelBackend

if TYPE_CHECKING:
    from pydantic_ai.models import Model

__all__ = ["ModelBackend", "resolve"]

_EXTRAS = {"anthropic": "anthropic", "google": "google", "google-cloud": "google"}


def resolve(model: str | ModelBackend | Model) -> ModelBackend:
    """The backend for a model.

    Args:
        model: A ModelBackend, which is returned as it is; a pydantic-ai model string such as
            ``"openai:gpt-5-mini"``; or a pydantic-ai Model object.

    Raises:
        ImproperlyConfigured: pydantic-ai is needed and not installed, or ``model`` is none of the three.
    """
    if isinstance(model, ModelBackend):
        return model
    if find_spec("pydantic_ai") is None:
        raise ImproperlyConfigured(
            f"The model {model!r} needs pydantic-ai: install criogen-threads[{extra_for(model)}]."
        )
    from .pydantic_ai import PydanticAIBackend

    if not isinstance(model, str) and not _is_model_object(model):
        raise ImproperlyConfigured(f"{model!r} is neither a ModelBackend nor a model string nor a pydantic-ai Model.")
    return PydanticAIBackend(model)


def _is_model_object(model: object) -> bool:
    from pydantic_ai.models import Model

    return isinstance(model, Model)


def extra_for(model: object) -> str:
    """The extra of this package that brings the client of a model string."""
    provider = model.partition(":")[0] if isinstance(model, str) else ""
    return _EXTRAS.get(provider, "openai")
