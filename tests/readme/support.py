"""The README, and its snippets.

The first line of a snippet says where it belongs: a module of the shop (snippets of one module add up), the settings,
or the shell, which sees what the shell's earlier snippets made.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from django.test import RequestFactory

from tests.processes import ROOT

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http import HttpRequest

README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"^```python\n# (\S+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
MODULES = [
    "shop/agents.py", "shop/apps.py", "shop/policy.py", "shop/views.py", "shop/signals.py", "shop/tests.py",
    "shop/test_with_pytest.py",
]  # fmt: skip
SITE = ["mysite/urls.py", "mysite/asgi.py", "mysite/celery.py"]
LOOK_UP = [{"tool_call": {"name": "look_up_order", "arguments": {"order": "A-1001"}}}]
REFUND = [{"tool_call": {"name": "refund", "arguments": {"order": "A-1002", "amount": "10"}}}]


def snippets(place: str) -> list[str]:
    return [code for where, code in SNIPPETS if where == place]


def request(user: User, **data: str) -> HttpRequest:
    made = RequestFactory().post("/", data)
    made.user = user

    async def auser() -> User:
        return user

    made.auser = auser
    return made


def content(response: Any) -> dict[str, Any]:
    return {"http": response.status_code, **json.loads(response.content)}
