"""One code, one status, whoever answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import OperationalError

from criogen_threads import errors, problems
from criogen_threads.api.problems import handle

OF_RUNS = {
    "cancelled", "abandoned", "approval_expired", "approval_required", "limit_reached", "model_failed", "lease_lost",
    "internal_error",
}  # fmt: skip
"""How a run ends: told as part of it, by no status."""

OF_CODE = {"error", "in_transaction", "sync_in_async", "invalid_transition"}
"""What only a defect can bring about: 500."""


def codes() -> list[str]:
    classes: list[type[errors.CriogenError]] = [errors.CriogenError]
    for each in classes:
        classes += each.__subclasses__()
    return sorted({each.code for each in classes if each.__module__.startswith("criogen_threads.")})


@pytest.mark.parametrize("code", codes())
def test_every_code_that_a_request_can_meet_has_a_status(code: str) -> None:
    assert (code in problems.STATUS) != (code in OF_RUNS | OF_CODE | {"frame_invalid"})


@pytest.mark.parametrize("code", [code for code in codes() if code in problems.STATUS])
def test_views_inside_and_outside_of_rest_framework_answer_alike(code: str) -> None:
    class Raised(errors.CriogenError):
        text = "It is so."

    Raised.code = code
    error = Raised(limit=3)
    inside, outside = handle(error), problems.response(error)
    assert inside is not None
    assert inside.status_code == outside.status_code == problems.STATUS[code]
    assert inside.data == json.loads(outside.content)
    assert outside["Content-Type"] == "application/problem+json"
    assert inside.get("Retry-After") == outside.get("Retry-After")
    assert ("Retry-After" in outside) == (code in problems.RETRY_AFTER)


async def test_a_view_that_cannot_reach_the_database_says_so() -> None:
    @problems.answered
    async def view(request: Any) -> Any:
        raise OperationalError("the connection is closed")

    response: Any = await view(None)
    assert (response.status_code, json.loads(response.content)["code"]) == (503, "database_unavailable")
    assert response["Retry-After"]
