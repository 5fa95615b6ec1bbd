"""The OpenAPI document, and requests made from it."""

from __future__ import annotations

import base64
import subprocess
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from criogen_threads.agents import tool
from criogen_threads.models import Checkpoint, Run, Thread, ToolCall
from tests.api.test_access import TABLE
from tests.processes import ROOT
from tests.support import an_agent, call

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django.fixtures import SettingsWrapper

    from tests.api.support import Api

pytestmark = pytest.mark.django_db(transaction=True)

MOST = 30
"""Requests for each operation."""


def test_the_schema_is_complete_and_valid() -> None:
    out = StringIO()
    call_command("spectacular", validate=True, fail_on_warn=True, format="openapi-json", stdout=out)
    assert '"/api/threads/{key}/runs/"' in out.getvalue()


def test_the_schema_is_served_and_holds_this_api_alone(api: Api) -> None:
    document = api.get("schema/").json()
    described = {
        f"{method.upper()} {path.removeprefix('/api/')}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert described == set(TABLE) - {"GET schema/"}


def test_without_drf_spectacular_there_is_no_schema_and_no_error() -> None:
    """The extra "schema" is one."""
    script = (
        "import sys; sys.modules['drf_spectacular'] = None\n"
        "import django; from django.conf import settings; from tests import settings as ours\n"
        "apps = [app for app in ours.INSTALLED_APPS if app != 'drf_spectacular']\n"
        "settings.configure(**{**{k: v for k, v in vars(ours).items() if k.isupper()}, 'INSTALLED_APPS': apps})\n"
        "django.setup()\n"
        "from criogen_threads.api.urls import urlpatterns\n"
        "from django.core.management import call_command; call_command('check')\n"
        "print(sorted(str(each.pattern) for each in urlpatterns))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "threads/" in done.stdout
    assert "schema/" not in done.stdout


@tool(approval="owner")
def confirm(what: str) -> str:
    """Ask first."""
    return "confirmed"


@pytest.fixture
def threads(owner: User, settings: SettingsWrapper) -> dict[str, list[str]]:
    """Ids that exist: a thread that said something, one that waits, and what is in them."""
    settings.CRIOGEN_THREADS |= {"BUSY_TIMEOUT": 0.1}
    agent = an_agent("hello", [call("confirm", what="this")], "done", tools=[confirm])
    for key, texts in (("said", ["hi"]), ("waits", ["hi", "do it"])):
        for text in texts:
            agent.thread(key, actor=owner).send_sync(text)
    settings.CRIOGEN_THREADS |= {"DISPATCHER": "criogen_threads.testing.LeftInLine"}
    models: dict[str, Any] = {"run": Run, "approval": ToolCall, "checkpoint": Checkpoint}
    found = {name: [str(pk) for pk in model.objects.values_list("pk", flat=True)] for name, model in models.items()}
    return {**found, "key": ["said", "waits"]}


def operations() -> list[str]:
    return sorted(set(TABLE) - {"GET schema/"})


@pytest.mark.parametrize("operation", operations())
def test_no_request_that_the_schema_allows_is_a_500(owner: User, threads: dict[str, list[str]], operation: str) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    token = base64.b64encode(b"owner:pw").decode()
    headers = {"Authorization": f"Basic {token}"}
    schema = schemathesis.openapi.from_wsgi("/api/schema/", get_wsgi_application(), headers=headers)
    method, _, path = operation.partition(" ")
    strategy = schema[f"/api/{path}"][method].as_strategy()

    @settings(max_examples=MOST, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=strategy, data=st.data())
    def ask(case: Any, data: Any) -> None:
        aim(case, data, threads)
        response = case.call(headers=headers, timeout=None)
        assert response.status_code < 500, (case.as_curl_command(), response.text)
        if case.method != "DELETE" or response.status_code != 204:
            case.validate_response(response, checks=checks(schemathesis))

    ask()
    assert Thread.objects.exists() or method == "DELETE"


def aim(case: Any, data: Any, threads: dict[str, list[str]]) -> None:
    """Let about half of the requests meet something that is there; and none of them wait."""
    case.query = {name: value for name, value in (case.query or {}).items() if name != "wait"}
    if not data.draw(st.booleans(), label="aim"):
        return
    for name in case.path_parameters or {}:
        kind = "approval" if "approvals" in case.path else "run" if name == "id" else "key"
        case.path_parameters[name] = data.draw(st.sampled_from(threads[kind]), label=name)
    if isinstance(case.body, dict) and "checkpoint" in case.body:
        case.body["checkpoint"] = data.draw(st.sampled_from(threads["checkpoint"]), label="checkpoint")


def checks(schemathesis: Any) -> list[Any]:
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    return [content_type_conformance, response_schema_conformance, status_code_conformance]
