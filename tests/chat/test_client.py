"""The JavaScript client without the element; and files with hashed names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.staticfiles.storage import ManifestStaticFilesStorage
from django.core.management import call_command
from django.test import override_settings

from criogen_threads.models import Run, Thread, ToolCall
from tests.browsers import aside, settled
from tests.chat.support import Visitor, answers, eventually, said, say
from tests.streaming.puppet import wish
from tests.streaming.servers import web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.django_db(transaction=True)

BEGIN = """async () => {
    const { Chat, ChatError, configuration } = await import("/static/criogen_threads/chat/chat.js");
    const element = document.querySelector("criogen-chat");
    element.remove();
    window.ChatError = ChatError;
    window.chat = new Chat(configuration(element.getAttribute("config")));
    window.caught = (promise) => promise.then(
        () => "", (error) => error instanceof ChatError ? error.code : error.name);
}"""


@pytest.fixture
def client(visit: Callable[..., Visitor]) -> Visitor:
    """A page without the element, with a client in ``chat``."""
    visitor = visit(tolerated="409 (Conflict)")
    settled(visitor.open(), BEGIN)
    return visitor


def pays() -> str:
    return wish([{"text": "Pay?"}, {"tool_call": {"name": "pay", "arguments": {"amount": 3}}}], "Done.")


def test_c8_send_waits_for_the_reply(client: Visitor) -> None:
    reply = settled(client.page, "chat.send('Hello', {state: {language: 'de'}})")
    assert (reply["status"], reply["text"], reply["pending"]) == ("completed", "You said: Hello", [])
    assert [each["role"] for each in reply["messages"]] == ["user", "assistant"]
    assert Run.objects.get(pk=reply["run_id"]).state == {"language": "de"}
    twice = "Promise.all([1, 2].map(() => chat.send('once', {clientId: 'the-same'})))"
    one, two = settled(client.page, twice)
    assert one["run_id"] == two["run_id"]


def test_c8_stream_yields_ag_ui_and_the_reply(client: Visitor) -> None:
    script = """async (text) => {
        const events = [];
        for await (const event of chat.stream(text)) events.push(event);
        return events;
    }"""
    events = settled(client.page, script, wish("A sentence in pieces.", delay=0.03, chunk=4))
    answer = next(each["messageId"] for each in events if each.get("role") == "assistant")
    pieces = [each for each in events if each["type"] == "TEXT_MESSAGE_CONTENT" and each["messageId"] == answer]
    text = "".join(each["delta"] for each in pieces)
    assert text == "A sentence in pieces."
    assert events[0]["type"] == "RUN_STARTED"
    assert events[-1]["type"] == "reply"
    assert events[-1]["reply"]["text"] == text


def test_p9_an_aborted_signal_cancels_the_run_which_is_saved(client: Visitor) -> None:
    script = """async (text) => {
        const stop = new AbortController();
        const sent = caught(chat.send(text, {signal: stop.signal}));
        const grows = (resolve) => ({detail}) => detail.what === "grow" && resolve();
        await new Promise((resolve) => chat.addEventListener("change", grows(resolve)));
        stop.abort();
        return sent;
    }"""
    text = wish(", ".join(map(str, range(2000))), delay=0.02)
    assert settled(client.page, script, text) == "AbortError"
    run = Run.objects.get(thread__key=client.key)
    assert (run.status, run.error_code) == ("failed", "cancelled")
    assert said(client.stored()) == [("user", text)]
    leave = (
        "async (text) => { for await (const event of chat.stream(text)) if (event.type.endsWith('CONTENT')) break; }"
    )
    settled(client.page, leave, text)
    eventually(lambda: Run.objects.filter(thread__key=client.key, error_code="cancelled").count() == 2)


def test_p23_approvals_are_answered(client: Visitor) -> None:
    page = client.page
    for answer, verdict in (("chat.approve()", "done"), ("chat.reject('no')", "rejected")):
        reply = settled(page, "text => chat.send(text)", pays())
        assert (reply["status"], len(reply["pending"])) == ("suspended", 1)
        assert settled(page, "caught(chat.send('and now?'))") == "thread_suspended"
        assert settled(page, answer)["text"] == "Done."
        assert ToolCall.objects.filter(thread__key=client.key).latest("created_at").status == verdict
    waits = settled(page, "text => chat.send(text)", pays())["pending"][0]["id"]
    assert settled(page, "caught(chat.decide({'no-such-id': true}))") == "resume_invalid"
    assert settled(page, "id => chat.decide({[id]: {approve: true, arguments: {amount: 4}}})", waits)["text"] == "Done."
    assert settled(page, "caught(chat.retry())") == "resume_invalid"


def test_p18_p25_p26_p33_p37_the_conversation_is_read_rewound_retried_and_deleted(client: Visitor) -> None:
    page = client.page
    assert (
        settled(page, "text => caught(chat.send(text))", wish("It is better now, after a while.", fails=4))
        == "model_failed"
    )
    assert settled(page, "chat.retry()")["text"] == "It is better now, after a while."
    settled(page, "chat.send('two')")
    messages = settled(page, "chat.messages()")
    assert [(each["role"], each["id"]) for each in messages] == [(e["role"], e["id"]) for e in client.stored()]
    history = settled(page, "chat.history({limit: 2})")
    assert [each["version"] for each in history] == sorted((each["version"] for each in history), reverse=True)
    assert len(history) == 2
    first = settled(page, "chat.history({limit: 100})")[-1]
    assert settled(page, "id => chat.rewind(id)", first["id"])["source"] == "fork"
    assert settled(page, "caught(chat.rewind('00000000-0000-7000-8000-000000000000'))") == "checkpoint_not_found"
    assert len(client.stored()) == 1
    settled(page, "chat.delete()")
    assert not Thread.objects.filter(key=client.key).exists()
    assert settled(page, "chat.send('anew')")["text"] == "You said: anew"


def test_one_look_that_fails_does_not_end_a_turn(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="503 (Service Unavailable)")
    page = visitor.open()
    settled(page, BEGIN)
    page.route("**/runs/*/", lambda route: route.fulfill(status=503), times=1)
    reply = settled(page, "chat.send('Hello')")
    assert (reply["status"], reply["text"]) == ("completed", "You said: Hello")
    assert Run.objects.get(pk=reply["run_id"]).status == "completed"


def test_a_read_that_fails_loses_no_message_that_was_not_sent(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="503 (Service Unavailable)")
    page = visitor.open()
    settled(page, BEGIN)
    settled(page, "chat.send('Hello')")
    page.route("**/messages/**", lambda route: route.fulfill(status=503), times=1)
    page.route("**/runs/", lambda route: route.fulfill(status=503), times=1)
    assert settled(page, "caught(chat.submit('Unsent'))") == "offline"
    settled(page, "chat.refresh()")
    waiting = "chat.transcript.local.map(each => [each.text, each.sending])"
    assert settled(page, waiting) == [["Unsent", "failed"]]
    settled(page, "chat.delete()")
    assert settled(page, waiting) == []


# Hashed names ----------------------------------------------------------------------------------------------------


class Aggregating(ManifestStaticFilesStorage):
    """What a site may turn on: imports name hashed files, too."""

    support_js_module_import_aggregation = True


STORAGES = {
    "plain imports": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage",
    "hashed imports": "tests.chat.test_client.Aggregating",
}


@pytest.fixture(params=STORAGES.values(), ids=STORAGES)
def hashed(
    request: pytest.FixtureRequest, committed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    folder = tmp_path / "collected"
    storages = {"staticfiles": {"BACKEND": request.param}}
    apps = ["django.contrib.staticfiles", "criogen_threads", "tests.chat"]
    with override_settings(STATIC_ROOT=folder, STATIC_URL="/static/", STORAGES=storages, INSTALLED_APPS=apps):
        aside(call_command, "collectstatic", interactive=False, verbosity=0)
    monkeypatch.setenv("CRIOGEN_TEST_STATIC", str(folder))
    monkeypatch.setenv("CRIOGEN_TEST_STORAGE", request.param)
    with web(tmp_path, project="tests.chat") as [process]:
        yield process


def test_c8_files_with_hashed_names_work(chromium: Any, hashed: Any, request: pytest.FixtureRequest) -> None:
    visitor = Visitor(chromium, hashed)
    loaded: list[str] = []
    visitor.page.on("request", lambda request: loaded.append(request.url.rpartition("/")[2]))
    page = visitor.open()
    say(page, "Hello")
    answers(page).get_by_text("You said: Hello").wait_for()
    modules = [each for each in loaded if each.endswith(".js")]
    assert len(modules) == len(set(modules)) > 10, "each module once"
    plain = [each for each in modules if each.count(".") == 1]
    assert len(plain) == (0 if "hashed imports" in request.node.name else len(modules) - 1)
    assert not visitor.complaints
    visitor.context.close()
