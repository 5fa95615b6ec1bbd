"""``schema/``: the OpenAPI document (the extra "schema")."""

from __future__ import annotations

from typing import Any

from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularAPIView

from criogen_threads.api import problems
from criogen_threads.api.permissions import IsSomebody


def only_ours(endpoints: list[Any], **_: Any) -> list[Any]:
    """Of the site's endpoints those of this package."""
    return [each for each in endpoints if each[3].cls.__module__.startswith("criogen_threads.api.")]


class Schema(SpectacularAPIView):
    """The schema of this API alone, whatever else the site serves; JSON, for users who are logged in."""

    schema = None  # it does not describe itself
    permission_classes = [IsSomebody]
    renderer_classes = [OpenApiJsonRenderer]
    custom_settings = {"TITLE": "criogen_threads", "VERSION": None, "PREPROCESSING_HOOKS": [f"{__name__}.only_ours"]}

    def get_exception_handler(self) -> Any:
        """The package's own, whatever the site's is."""
        return problems.handle
