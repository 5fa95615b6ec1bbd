"""``{% criogen_chat %}``: what it writes into a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.core.exceptions import ImproperlyConfigured
from django.template import Context, RequestContext, Template
from django.test import RequestFactory
from django.utils import translation

import criogen_threads
from criogen_threads import chat, tickets
from criogen_threads.errors import AgentNotFoundError, InvalidThreadIdError
from tests.api.support import a_user
from tests.support import an_agent, forget_agents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpRequest

STATIC = Path(criogen_threads.__file__).parent / "static" / "criogen_threads" / "chat"


@pytest.fixture(autouse=True)
def helper(settings: Any) -> Iterator[None]:
    settings.STATIC_URL = "/static/"
    an_agent("Hello", description="The helper")
    yield
    forget_agents()


@pytest.fixture
def request_of(db: None) -> HttpRequest:
    request = RequestFactory().get("/help/")
    request.user, request.session = a_user("ann"), SessionStore()
    return request


def written(request: HttpRequest, tag: str) -> str:
    return Template("{% load criogen_chat %}" + tag).render(
        RequestContext(request, {"key": "user-1", "ask": ["A", "B"]})
    )


def placed(page: str) -> list[str]:
    """The ids of the configurations that the page's chats name."""
    return re.findall(r'<criogen-chat config="([^"]+)"', page)


def configurations(page: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in re.findall(r'type="application/json">(.*?)</script>', page)]


def test_the_tag_writes_a_ticket_for_this_user_and_nothing_inline(request_of: HttpRequest) -> None:
    page = written(request_of, '{% criogen_chat thread=key agent="helper" suggestions=ask %}')
    [config] = configurations(page)
    assert tickets.read(request_of, config["ticket"]) == tickets.Ticket("user-1", "helper")
    other = RequestFactory().get("/")
    other.user, other.session = a_user("bob"), SessionStore()
    with pytest.raises(tickets.TicketInvalidError):
        tickets.read(other, config["ticket"])
    assert (config["thread"], config["agent"], config["title"]) == ("user-1", "helper", "The helper")
    assert (config["api"], config["socket"], config["suggestions"]) == ("/api/", "/ws/threads/", ["A", "B"])
    assert config["agents"]["helper"] == "The helper"
    assert '<script type="module" src="/static/criogen_threads/chat/chat.js"></script>' in page
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*(src=|application/json))", page)


def test_two_chats_on_a_page_have_their_own_configuration(request_of: HttpRequest) -> None:
    tag = '{% criogen_chat thread=key agent="helper" %}{% criogen_chat agent="helper" launcher=True theme="dark" %}'
    page = written(request_of, tag)
    one, two = configurations(page)
    first, second = placed(page)
    assert f'config="{second}" launcher theme="dark"' in page
    assert first != second
    assert one["thread"] == "user-1"
    assert len(two["thread"]) == 36
    assert configurations(written(request_of, tag))[1]["thread"] != two["thread"], "each visit is a new conversation"


def test_chats_in_two_includes_have_their_own_configuration(request_of: HttpRequest) -> None:
    part = Template('{% load criogen_chat %}{% criogen_chat agent="helper" %}')
    page = Template("{% include part %}{% include part %}").render(RequestContext(request_of, {"part": part}))
    assert re.findall(r'<script id="([^"]+)"', page) == placed(page)
    assert len(set(placed(page))) == 2


def test_f55_nothing_gets_out_of_the_configuration(request_of: HttpRequest) -> None:
    request_of.GET = {"x": "</script><script>alert(1)</script>"}  # type: ignore[assignment]
    page = written(request_of, '{% criogen_chat thread=key agent="helper" welcome=request.GET.x title=request.GET.x %}')
    assert "<script>alert" not in page
    assert configurations(page)[0]["welcome"] == "</script><script>alert(1)</script>"


def test_somebody_without_an_account_gets_a_ticket_for_the_session(settings: Any) -> None:
    settings.CRIOGEN_THREADS = {"VISITOR_AGENTS": ["helper"]}
    request = RequestFactory().get("/")
    request.user, request.session = AnonymousUser(), SessionStore()
    [config] = configurations(written(request, '{% criogen_chat thread=key agent="helper" %}'))
    assert tickets.read(request, config["ticket"]).key == "user-1"
    assert config["agents"] == {"helper": "The helper"}


def test_the_words_are_those_of_the_request_s_language() -> None:
    assert chat.texts()["send"] == "Send"
    with translation.override("de"):
        assert chat.texts()["send"] == "Senden"


def test_every_word_that_the_page_looks_up_is_there() -> None:
    sources = "".join(each.read_text() for each in STATIC.glob("*.js"))
    used = set(re.findall(r"texts\.(\w+)", sources))
    known = set(chat.texts())
    assert used <= known
    looked_up = {each for each in known if each.startswith(("error_", "call_"))}
    assert known - looked_up - used == set()


def test_what_is_wrong_is_said(request_of: HttpRequest) -> None:
    with pytest.raises(AgentNotFoundError):
        written(request_of, '{% criogen_chat thread=key agent="nobody" %}')
    with pytest.raises(InvalidThreadIdError):
        written(request_of, '{% criogen_chat thread="a/b" agent="helper" %}')
    with pytest.raises(ImproperlyConfigured, match=r"context_processors\.request"):
        Template('{% load criogen_chat %}{% criogen_chat agent="helper" %}').render(Context({}))
