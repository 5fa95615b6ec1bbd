"""Who may do what: handles with an actor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.agents import ToolContext, tool
from criogen_threads.engine import lease
from criogen_threads.engine.journal import turns
from criogen_threads.models import Run, Thread, ToolCall
from criogen_threads.policy import Policy
from tests.support import an_agent, call, in_db, refused
from tests.threads.people import a_user, staff

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


@tool(approval="staff")
def refund(context: ToolContext) -> str:
    return f"refunded for {context.actor}"


@tool(approval="owner")
def close_account() -> str:
    return "closed"


def an_agent_that_asks(*names: str) -> Any:
    return an_agent([call(name) for name in names], "done", "more", tools=[refund, close_account])


async def test_the_actor_of_the_first_send_owns_the_thread_and_is_on_every_run() -> None:
    ann = await in_db(a_user)
    chat = an_agent("hello").thread("one", actor=ann)
    reply = await chat.send("a")
    assert (await in_db(Thread.objects.get)).owner_id == ann.pk
    run = await chat.run(reply.run_id)
    assert run is not None
    assert run["actor_id"] == ann.pk


async def test_a_thread_of_another_user_is_thread_not_found_for_every_call() -> None:
    ann, bob = await in_db(a_user, "ann"), await in_db(a_user, "bob")
    agent = an_agent_that_asks("close_account")
    asked = await agent.thread("one", actor=ann).send("a")
    chat = agent.thread("one", actor=bob)
    head = (await agent.thread("one").history())[0]["id"]
    for attempt in (
        lambda: chat.send("b"), lambda: chat.submit("b"), chat.messages, chat.history, chat.runs, chat.approve,
        chat.retry, chat.delete, chat.cancel, chat.get_events, chat.thread_state, chat.get_current_run,
        lambda: chat.run(asked.run_id), lambda: chat.rewind(head), lambda: chat.get_context_window(1),
        lambda: chat.decide({asked.pending[0]["id"]: True}), lambda: chat.create_event("x"),
        lambda: chat.describe(title="mine"), lambda: chat.format_event_chain(asked.run_id),
    ):  # fmt: skip
        with refused("thread_not_found"):
            await attempt()
    assert await in_db(Run.objects.count) == 1
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 1


async def test_an_inactive_user_may_do_nothing() -> None:
    ann = await in_db(a_user)
    ann.is_active = False
    await in_db(ann.save)
    with refused("permission_denied"):
        await an_agent("x").thread("one", actor=ann).send("a")
    assert not await in_db(Thread.objects.exists)


async def test_view_only_staff_see_and_change_nothing() -> None:
    ann, viewer = await in_db(a_user), await in_db(staff, "viewer", "view_transcript")
    agent = an_agent_that_asks("refund")
    asked = await agent.thread("one", actor=ann).send("a")
    chat = agent.thread("one", actor=viewer)
    assert len(await chat.messages()) == 2
    head = (await chat.history())[0]["id"]
    for attempt in (
        lambda: chat.send("b"), chat.approve, chat.reject, lambda: chat.decide({asked.pending[0]["id"]: True}),
        chat.retry, chat.cancel, chat.delete, lambda: chat.rewind(head), lambda: chat.create_event("x"),
        lambda: chat.describe(title="x"),
    ):  # fmt: skip
        with refused("permission_denied"):
            await attempt()
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 1


async def test_staff_with_the_permission_answer_and_stand_on_record() -> None:
    ann = await in_db(a_user)
    boss = await in_db(staff, "boss", "view_transcript", "decide_toolcall")
    agent = an_agent_that_asks("refund")
    await agent.thread("one", actor=ann).send("a")
    reply = await agent.thread("one", actor=boss).approve()
    assert reply.status == "completed"
    row = await in_db(ToolCall.objects.get)
    assert (row.decided_by_id, row.approved) == (boss.pk, True)
    assert row.decided_at is not None
    run = await in_db(Run.objects.get)
    assert run.actor_id == ann.pk  # the turn stays that of the one who asked


async def test_the_tool_runs_for_the_one_who_asked_whoever_answered() -> None:
    ann = await in_db(a_user)
    boss = await in_db(staff, "boss", "view_transcript", "decide_toolcall")
    agent = an_agent_that_asks("refund")
    await agent.thread("one", actor=ann).send("a")
    reply = await agent.thread("one", actor=boss).approve()
    assert reply.messages[-2]["content"][0]["tool_result"]["content"] == "refunded for ann"


async def test_who_asked_never_answers_a_staff_approval_staff_or_not() -> None:
    boss = await in_db(staff, "boss", "view_transcript", "decide_toolcall")
    ann = await in_db(a_user)
    agent = an_agent_that_asks("refund")
    for key, actor in (("of-ann", ann), ("of-boss", boss)):
        chat = agent.thread(key, actor=actor)
        [pending] = (await chat.send("a")).pending
        for attempt in (chat.approve, chat.reject, lambda c=chat, p=pending: c.decide({p["id"]: False})):
            with refused("permission_denied"):
                await attempt()


@pytest.mark.parametrize("link", ["parent_run", "forked_from"])
async def test_who_asked_further_up_does_not_answer_either(link: str) -> None:
    """The run that asked for this one, or that this one goes on from, was another member of the staff's."""
    boss, other = [await in_db(staff, name, "view_transcript", "decide_toolcall") for name in ("boss", "other")]
    chat = an_agent_that_asks("refund").thread("one", actor=await in_db(a_user))
    [pending] = (await chat.send("a")).pending

    def link_to_two_above() -> None:
        own = Run.objects.get()
        top = Run.objects.create(thread=own.thread, number=8, agent="x", actor=boss, status="requires_action")
        above = Run.objects.create(thread=own.thread, number=7, agent="x", status="requires_action", **{link: top})
        Run.objects.filter(pk=own.pk).update(**{link: above})

    await in_db(link_to_two_above)
    with refused("permission_denied"):
        await chat.agent.thread("one", actor=boss).decide({pending["id"]: True})
    assert (await chat.agent.thread("one", actor=other).decide({pending["id"]: True})).status == "completed"


async def test_an_owner_approval_is_the_owner_s_and_nobody_else_s() -> None:
    ann = await in_db(a_user)
    boss = await in_db(staff, "boss", "view_transcript", "decide_toolcall")
    agent = an_agent_that_asks("close_account")
    await agent.thread("one", actor=ann).send("a")
    with refused("permission_denied"):
        await agent.thread("one", actor=boss).approve()
    assert (await agent.thread("one", actor=ann).approve()).status == "completed"


async def test_none_of_a_decision_is_kept_when_one_call_is_not_this_actor_s() -> None:
    ann = await in_db(a_user)
    agent = an_agent_that_asks("close_account", "refund")
    chat = agent.thread("one", actor=ann)
    mine, theirs = (await chat.send("a")).pending
    for attempt in (chat.approve, lambda: chat.decide({mine["id"]: True, theirs["id"]: True})):
        with refused("permission_denied"):
            await attempt()
    assert await in_db(ToolCall.objects.awaiting_approval().count) == 2
    assert (await chat.decide({mine["id"]: True})).status == "suspended"


async def test_f28_the_very_same_answer_by_the_same_person_is_not_an_error() -> None:
    ann = await in_db(a_user)
    boss = await in_db(staff, "boss", "view_transcript", "decide_toolcall")
    other = await in_db(staff, "other", "view_transcript", "decide_toolcall")
    agent = an_agent_that_asks("refund")
    [pending] = (await agent.thread("one", actor=ann).send("a")).pending
    chat = agent.thread("one", actor=boss)
    answer = {pending["id"]: {"approve": True, "reason": "a regular"}}
    first, again = await chat.decide(answer), await chat.decide(answer)
    assert (first.status, again.status, again.text) == ("completed", "completed", first.text)
    for late, by in ((chat, {pending["id"]: False}), (agent.thread("one", actor=other), answer)):
        with refused("resume_invalid") as caught:
            await late.decide(by)
        assert caught.value.details["decided_by"] == "boss"
        assert caught.value.details["decided_at"]
    assert await in_db(ToolCall.objects.count) == 1


async def test_f28_a_late_answer_is_told_who_and_when_after_the_next_turn_too() -> None:
    ann = await in_db(a_user)
    boss = await in_db(staff, "boss", "view_transcript", "decide_toolcall")
    agent = an_agent_that_asks("refund")
    mine = agent.thread("one", actor=ann)
    [pending] = (await mine.send("a")).pending
    await agent.thread("one", actor=boss).approve()
    await mine.send("b")
    with refused("resume_invalid") as caught:
        await agent.thread("one", actor=boss).decide({pending["id"]: False})
    assert caught.value.details["decided_by"] == "boss"


async def test_staff_permissions_for_rewind_cancel_and_delete() -> None:
    ann = await in_db(a_user)
    agent = an_agent_that_asks("refund")
    await agent.thread("one", actor=ann).send("a")
    head = (await agent.thread("one").history())[0]["id"]
    rewinder = await in_db(staff, "r", "view_transcript", "rewind_thread")
    canceller = await in_db(staff, "c", "view_transcript", "cancel_run")
    remover = await in_db(staff, "d", "view_transcript", "delete_thread")
    with refused("permission_denied"):
        await agent.thread("one", actor=canceller).rewind(head)
    assert (await agent.thread("one", actor=rewinder).rewind(head))["source"] == "fork"
    assert await agent.thread("one", actor=canceller).cancel() is True
    assert await agent.thread("one", actor=remover).delete() is True


class Shared(Policy):
    """Everybody reads and speaks everywhere."""

    def see(self, user: Any, thread: Any) -> bool:
        return True

    def send(self, user: Any, thread: Any) -> bool:
        return True


async def test_a_site_can_replace_the_policy(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS = {"POLICY": f"{__name__}.Shared"}
    ann, bob = await in_db(a_user, "ann"), await in_db(a_user, "bob")
    agent = an_agent("one", "two")
    await agent.thread("one", actor=ann).send("a")
    await agent.thread("one", actor=bob).send("b")
    assert [run["actor_id"] for run in await agent.thread("one").runs()] == [ann.pk, bob.pk]


async def test_the_queryset_forms_agree_with_the_object_forms() -> None:
    ann, bob = await in_db(a_user, "ann"), await in_db(a_user, "bob")
    boss = await in_db(
        staff, "boss", "view_transcript", "decide_toolcall", "rewind_thread", "cancel_run", "delete_thread"
    )
    agent = an_agent_that_asks("close_account", "refund")
    for key, owner in (("a", ann), ("b", bob), ("c", boss), ("d", None)):
        await agent.thread(key, actor=owner).send("x")
    forms = {"see": "seen", "send": "sendable"}

    def compare() -> None:
        policy = Policy()
        for user in (ann, bob, boss):
            for verb, form in forms.items():
                allowed = {thread.key for thread in Thread.objects.all() if getattr(policy, verb)(user, thread)}
                assert {thread.key for thread in getattr(policy, form)(user, Thread.objects.all())} == allowed
            calls = ToolCall.objects.awaiting_approval()
            may = {c.pk for c in calls if policy.decide(user, c, c.thread, c.run)}
            assert {c.pk for c in policy.decidable(user, calls)} == may

    await in_db(compare)


async def test_of_two_users_who_create_one_key_the_second_finds_nothing() -> None:
    ann, bob = await in_db(a_user, "ann"), await in_db(a_user, "bob")
    agent = an_agent("one", "two")
    turn = await agent.thread("one", actor=bob)._turn("b", None, None, None, {})  # bob looks: it is not there yet
    await agent.thread("one", actor=ann).send("a")
    with refused("thread_not_found"):
        await in_db(lambda: turns.begin(turn, lease.current().ensure()))
