"""What an agent may name as its model."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

from criogen_threads.backends import resolve
from criogen_threads.backends.base import ModelError
from criogen_threads.backends.pydantic_ai import PydanticAIBackend
from criogen_threads.backends.scripted import ScriptedModel
from tests.backends.support import ask, asking


def test_a_backend_is_returned_as_it_is() -> None:
    backend = ScriptedModel.of("x")
    assert resolve(backend) is backend


def test_a_string_and_a_model_object_become_a_backend_of_pydantic_ai() -> None:
    from pydantic_ai.models.test import TestModel

    assert isinstance(resolve("openai:gpt-5-mini"), PydanticAIBackend)
    model = TestModel(custom_output_text="From an object")
    assert ask(resolve(model), asking())[1].content == [{"text": "From an object"}]


@pytest.mark.parametrize(
    ("model", "extra"),
    [("openai:gpt-5-mini", "openai"), ("anthropic:claude", "anthropic"), ("google:g", "google")],
)
def test_without_pydantic_ai_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, model: str, extra: str) -> None:
    monkeypatch.setattr("criogen_threads.backends.find_spec", lambda _name: None)
    with pytest.raises(ImproperlyConfigured, match=rf"criogen-threads\[{extra}\]"):
        resolve(model)


@pytest.mark.parametrize("model", [None, 3, ["openai:gpt"]])
def test_anything_else_is_refused(model: object) -> None:
    with pytest.raises(ImproperlyConfigured, match="neither"):
        resolve(model)  # type: ignore[arg-type]


def test_pydantic_ai_is_not_imported_before_the_first_request() -> None:
    code = (
        "import sys\n"
        "from criogen_threads.backends import resolve\n"
        "resolve('openai:gpt-5-mini')\n"
        "sys.exit('pydantic_ai' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("model", ["openai:gpt-5-mini", "nobody:knows", "no provider"])
def test_a_model_that_is_not_set_up_fails_for_good(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError) as caught:
        ask(resolve(model), asking())
    assert not caught.value.passing
    assert model in str(caught.value)


def test_a_client_that_is_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.models.anthropic", None)
    monkeypatch.setitem(sys.modules, "pydantic_ai.providers.anthropic", None)
    with pytest.raises(ModelError, match=r"criogen-threads\[anthropic\]") as caught:
        ask(resolve("anthropic:claude-haiku-4-5"), asking())
    assert not caught.value.passing
