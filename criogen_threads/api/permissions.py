"""Who may come in at all; what they may do there is the policy's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.permissions import BasePermission

from criogen_threads.visitors import is_somebody

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.views import APIView


class IsSomebody(BasePermission):
    """A user who is logged in and active, or a visitor: nobody is taken for whom a request says they are."""

    def has_permission(self, request: Request, view: APIView) -> bool:  # noqa: ARG002
        return is_somebody(request.user)
