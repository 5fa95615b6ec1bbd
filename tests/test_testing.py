"""``criogen_threads.testing``: conversations inside the transaction of a site's own tests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.db import IntegrityError, connection
from django.test import RequestFactory, TestCase

from criogen_threads import errors, testing
from criogen_threads.agents import Agent, ToolContext, get_agent, tool
from criogen_threads.backends.base import ModelError
from criogen_threads.engine import lease
from criogen_threads.models import Thread, Worker
from criogen_threads.signals import run_finished
from criogen_threads.testing import in_calling_thread, run_submitted, run_submitted_sync, scripted
from project.desk.demo import seed
from project.desk.models import CallBack, Order

if TYPE_CHECKING:
    from criogen_threads.threads import ThreadHandle

REFUND = [{"tool_call": {"name": "refund", "arguments": {"order": "A-1002", "amount": "10"}}}]


def ask(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_call": {"name": name, "arguments": arguments}}


def chat(actor: User | None = None) -> ThreadHandle:
    return get_agent("desk").thread("user-42", actor=actor)


@in_calling_thread()
class ConversationTests(TestCase):
    """What a site's developer would write."""

    @classmethod
    def setUpTestData(cls) -> None:
        seed()
        cls.visitor = User.objects.create_user("visitor")
        cls.staff = User.objects.create_user("staff", is_staff=True)
        names = ["decide_toolcall", "view_transcript"]
        cls.staff.user_permissions.set(Permission.objects.filter(codename__in=names))
        with scripted("desk", "Said while the class was set up."):
            get_agent("desk").thread("earlier", actor=cls.visitor).send_sync("Hello")

    def test_a_turn_sees_the_rows_of_the_test_and_the_test_those_of_the_turn(self) -> None:
        Order.objects.create(number="B-2001", customer="Ada", item="globe", total=30)
        with scripted("desk", [ask("look_up_order", order="B-2001")], "A globe.") as model:
            reply = chat(self.visitor).send_sync("What is B-2001?")
        assert (reply.status, reply.text) == ("completed", "A globe.")
        assert model.requests[1].messages[-1]["content"][0]["tool_result"]["content"]["item"] == "globe"
        assert Thread.objects.get(key="user-42").owner == self.visitor

    def test_what_one_test_said_is_gone_in_the_next(self) -> None:
        assert list(Thread.objects.values_list("key", flat=True)) == ["earlier"]
        assert chat(self.visitor).messages_sync() == []
        with scripted("desk", "Hello again."):
            get_agent("desk").thread("earlier", actor=self.visitor).send_sync("Hello")
        said = get_agent("desk").thread("earlier").messages_sync()
        assert [message["role"] for message in said] == ["user", "assistant"] * 2

    def test_an_approval_is_asked_for_answered_and_runs_an_atomic_tool(self) -> None:
        with scripted("desk", REFUND, "Done."):
            reply = chat(self.visitor).send_sync("Refund 10 euros of A-1002")
            assert reply.status == "suspended"
            assert reply.pending[0]["approver"] == "staff"
            with pytest.raises(errors.ThreadSuspendedError):
                chat(self.visitor).send_sync("Hurry")
            with pytest.raises(errors.PermissionDeniedError):
                chat(self.visitor).approve_sync()
            reply = chat(self.staff).approve_sync()
        assert (reply.status, reply.text) == ("completed", "Done.")
        assert Order.objects.get(number="A-1002").refunded == 10

    def test_an_approval_that_is_rejected_changes_nothing(self) -> None:
        with scripted("desk", REFUND, "I am sorry.") as model:
            reply = chat(self.visitor).send_sync("Refund 10 euros of A-1002")
            chat(self.staff).decide_sync({reply.pending[0]["id"]: {"approve": False, "reason": "used"}})
        assert "used" in str(model.requests[1].messages[-1])
        assert Order.objects.get(number="A-1002").refunded == 0

    def test_an_atomic_tool_that_fails_takes_its_writes_back_and_nothing_of_the_test(self) -> None:
        @tool(atomic=True)
        def book_twice(context: ToolContext) -> str:
            """Write, and break a constraint."""
            CallBack.objects.create(phone="1", when="now")
            Order.objects.create(number="A-1001", customer="Ada", item="kettle", total=1)
            return "never"

        agent = Agent("breaking", model="none", tools=[book_twice])
        with scripted(agent, [ask("book_twice")], "It failed."), self.assertLogs("criogen_threads") as logs:
            reply = agent.thread("t").send_sync("Book it twice")
        assert IntegrityError.__name__ in "".join(logs.output)
        assert reply.messages[2]["content"][0]["tool_result"]["is_error"]
        assert (CallBack.objects.count(), Order.objects.count()) == (0, 4)

    def test_a_stream(self) -> None:
        with scripted("desk", "Streamed in a few pieces."):
            events = list(chat(self.visitor).stream_sync("Hello"))
        assert "".join(event.get("text", "") for event in events) == "Streamed in a few pieces."
        assert events[-1]["reply"].text == "Streamed in a few pieces."

    def test_a_failed_turn_and_its_retry(self) -> None:
        with scripted("desk", ModelError("out of order", passing=False)), pytest.raises(errors.ModelFailedError):
            chat().send_sync("Hello")
        assert chat().get_current_run_sync()["status"] == "failed"
        with scripted("desk", "Here again."):
            assert chat().retry_sync().text == "Here again."

    def test_a_passing_failure_is_repeated_without_a_pause(self) -> None:
        busy = ModelError("busy", passing=True)
        with scripted("desk", busy, busy, "At last.") as model, self.assertLogs("criogen_threads", "WARNING"):
            assert chat().send_sync("Hello").text == "At last."
        assert len(model.requests) == 3

    def test_history_rewind_and_delete(self) -> None:
        with scripted("desk", "One.", "Two."):
            chat().send_sync("1")
            one = chat().history_sync()[0]
            chat().send_sync("2")
        chat().rewind_sync(one["id"])
        assert len(chat().messages_sync()) == 2
        assert chat().delete_sync()
        assert not Thread.objects.filter(key="user-42").exists()

    def test_a_submitted_turn_waits_until_it_is_run(self) -> None:
        run = chat(self.visitor).submit_sync("Refund 10 euros of A-1002")
        assert chat().run_sync(run)["status"] == "queued"
        with scripted("desk", REFUND, "Done.", "Hello."):
            other = get_agent("desk").thread("other").submit_sync("Hello")
            assert run_submitted_sync() == 2
            assert chat().run_sync(run)["status"] == "requires_action"
            assert get_agent("desk").thread("other").run_sync(other)["status"] == "completed"
            assert run_submitted_sync() == 0

    def test_submitted_turns_of_one_thread_run_in_their_order(self) -> None:
        for word in ("1", "2", "3"):
            chat().submit_sync(word)
        with scripted("desk", "One.", "Two.", "Three."):
            assert run_submitted_sync() == 3
        assert [message["content"][0]["text"] for message in chat().messages_sync()] == [
            "1", "One.", "2", "Two.", "3", "Three.",
        ]  # fmt: skip

    def test_an_accepted_retry_waits_until_it_is_run(self) -> None:
        with scripted("desk", ModelError("out of order", passing=False), "Here again."):
            with pytest.raises(errors.ModelFailedError):
                chat().send_sync("Hello")
            run = chat().request_retry_sync()
            assert chat().run_sync(run)["status"] == "in_progress"
            assert run_submitted_sync() == 1
        assert chat().run_sync(run)["status"] == "completed"

    def test_a_turn_without_a_thread(self) -> None:
        with scripted("desk", "Once."):
            assert get_agent("desk").run_sync("Hello").text == "Once."
        assert Thread.objects.count() == 1

    def test_signals_are_sent_although_the_test_never_commits(self) -> None:
        heard: list[str] = []

        def listen(status: str, **_: Any) -> None:
            heard.append(status)

        run_finished.connect(listen)
        self.addCleanup(run_finished.disconnect, listen)
        with scripted("desk", "Hello."):
            chat().send_sync("Hello")
        assert heard == ["completed"]

    async def test_async_methods_see_the_same_rows(self) -> None:
        with scripted("desk", REFUND, "Done."):
            reply = await chat(self.visitor).send("Refund 10 euros of A-1002")
            assert reply.status == "suspended"
            reply = await chat(self.staff).approve()
        assert reply.text == "Done."
        order = await Order.objects.aget(number="A-1002")
        assert order.refunded == 10

    async def test_async_streams_submitted_turns_and_tools(self) -> None:
        @tool
        async def count(context: ToolContext) -> int:
            """Count the orders."""
            await asyncio.sleep(0)
            return await Order.objects.acount()

        agent = Agent("counting", model="none", tools=[count])
        with scripted(agent, [ask("count"), ask("count")], "Four.") as model:
            events = [event async for event in agent.thread("t").stream("How many?")]
        assert [e["type"] for e in events].count("tool_complete") == 2
        assert "4" in str(model.requests[1].messages[-1])
        with scripted("desk", "Hello."):
            await chat().submit("Hello")
            assert await run_submitted() == 1

    async def test_views_through_the_test_client(self) -> None:
        async def view(request: Any) -> str:
            return (await chat(self.visitor).send("Hello")).text

        with scripted("desk", "From a view."):
            assert await view(RequestFactory().get("/")) == "From a view."


class PlainTests(TestCase):
    """Without the decorator the guard stands; with it, one method is enough."""

    def test_a_conversation_inside_the_tests_transaction_is_refused(self) -> None:
        with pytest.raises(errors.InTransactionError):
            chat().send_sync("Hello")

    @in_calling_thread()
    def test_a_decorated_method(self) -> None:
        with scripted("desk", "Hello."):
            assert chat().send_sync("Hello").text == "Hello."

    @in_calling_thread()
    async def test_a_decorated_async_method(self) -> None:
        with scripted("desk", "Hello."):
            assert (await chat().send("Hello")).text == "Hello."


@pytest.mark.django_db
@in_calling_thread()
def test_a_pytest_function() -> None:
    seed()
    with scripted("desk", [ask("look_up_order", order="A-1001")], "A kettle."):
        assert chat().send_sync("What is A-1001?").text == "A kettle."
    assert connection.in_atomic_block


@in_calling_thread()
async def test_an_async_pytest_function_sees_the_rows_of_the_fixture(db: None, django_user_model: Any) -> None:
    user = await django_user_model.objects.acreate(username="visitor")
    with scripted("desk", "Hello."):
        assert (await chat(user).send("Hello")).text == "Hello."
    assert await Thread.objects.filter(owner=user).acount() == 1


@pytest.mark.django_db
def test_a_context_manager_and_its_end() -> None:
    before = settings.CRIOGEN_THREADS if hasattr(settings, "CRIOGEN_THREADS") else None
    with in_calling_thread(MODEL_RETRIES=0), scripted("desk", "Hello."):
        assert settings.CRIOGEN_THREADS["MODEL_RETRIES"] == 0
        assert chat().send_sync("Hello").text == "Hello."
        assert Worker.objects.filter(pk=lease.current().id).exists()
        inside = lease.current()
    assert getattr(settings, "CRIOGEN_THREADS", None) == before
    assert lease.current() is not inside


@pytest.mark.django_db(transaction=True)
def test_back_and_forth_between_both_ways_of_running() -> None:
    with scripted("desk", "One.", "Two.", "Three."):
        chat().send_sync("1")
        with in_calling_thread():
            chat().send_sync("2")
        assert chat().send_sync("3").text == "Three."


def test_scripted_gives_the_model_back_and_says_when_the_answers_are_used_up() -> None:
    desk = get_agent("desk")
    before = desk.backend
    with scripted(desk, "One.") as model:
        assert desk.backend is model
        with scripted("desk", "Two."):
            assert desk.backend is not model
        assert desk.backend is model
    assert desk.backend is before
    fresh = Agent("fresh", model="nothing:at-all")
    with scripted(fresh, "One."):
        pass
    assert "backend" not in vars(fresh)


@in_calling_thread()
def test_a_request_too_many_fails_the_run(db: None) -> None:
    with scripted("desk"), pytest.raises(errors.ModelFailedError, match="0 answers, and this is request 1"):
        chat().send_sync("Hello")


@pytest.mark.django_db
@in_calling_thread()
def test_the_tests_transaction_may_stand_idle_as_long_as_a_debugger_wants() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no such limit")
    with scripted("desk", "Hello."):
        chat().send_sync("Hello")
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("0",)


def test_scripted_model_is_the_one_of_the_backends() -> None:
    from criogen_threads.backends.scripted import ScriptedModel

    assert testing.ScriptedModel is ScriptedModel
