"""At sign-in a visitor's conversations become the user's: once, and nobody else's."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import login
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.test import RequestFactory
from django.utils import timezone

from criogen_threads import visitors
from criogen_threads.agents import ToolContext, tool
from criogen_threads.engine.journal import posts, visiting
from criogen_threads.engine.journal.askers import Asker
from criogen_threads.engine.journal.pen import lock
from criogen_threads.engine.journal.writing import write
from criogen_threads.errors import PermissionDeniedError
from criogen_threads.models import Run, Thread, Visitor
from tests.api.support import Api, a_user, at_once, code_of
from tests.engine.test_lease import Other, postgres_only, until_somebody_waits_for_a_lock
from tests.support import an_agent, call, refused
from tests.visitors.support import Guest, a_visitor, request_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from criogen_threads.engine.journal.statements import Session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ann(transactional_db: None) -> User:
    return a_user("ann", staff=True)


@pytest.fixture
def bob(transactional_db: None) -> User:
    return a_user("bob", staff=True)


def test_a_conversation_goes_on_after_the_sign_in(guest: Guest, ann: User) -> None:
    an_agent("Hello!", "Hello again!")
    key = guest.begin()
    guest.send(key, "Hi")
    before = guest.client.session.session_key
    guest.sign_in(ann)
    assert guest.client.session.session_key != before
    thread = Thread.objects.get()
    assert (thread.owner, thread.visitor) == (ann, "")
    assert Run.objects.get().actor == ann
    assert guest.token is None
    assert guest.send(key, "Hi again")["status"] == "completed"
    assert [thread["key"] for thread in Api(ann).get("threads/").json()["results"]] == [key]


def test_after_the_log_out_it_is_the_users_and_not_the_browsers(guest: Guest, ann: User) -> None:
    an_agent("Hello!")
    key = guest.begin()
    guest.sign_in(ann)
    guest.client.logout()
    assert guest.get(f"threads/{key}/").status_code == 401
    new = guest.begin()  # somebody new
    assert guest.get(f"threads/{key}/").status_code == 404
    guest.sign_in(ann)
    assert set(Thread.objects.filter(owner=ann).values_list("key", flat=True)) == {key, new}


def test_a_planted_session_gives_its_planter_nothing(guest: Guest, ann: User) -> None:
    """Session fixation: whoever planted the cookie knows it, and loses everything at the victim's sign-in."""
    an_agent("Hello!")
    key = guest.begin()
    attacker = guest.copy()
    assert attacker.get(f"threads/{key}/").status_code == 200
    guest.sign_in(ann)
    assert attacker.get(f"threads/{key}/").status_code == 401
    assert code_of(attacker.post(f"threads/{key}/runs/", text="x"), 401) == "not_authenticated"


def test_an_id_that_was_carried_over_begins_nothing_more(guest: Guest, ann: User) -> None:
    """As with sessions in cookies, which nobody can take back."""
    agent = an_agent("Hello!")
    key = guest.begin()
    visitor = visitors.AnonymousVisitor(visitors.digest(guest.token), "a")
    guest.sign_in(ann)
    with pytest.raises(PermissionDeniedError):
        agent.thread("new", actor=visitor).send_sync("Hi")
    with pytest.raises(PermissionDeniedError):
        posts.create("new", "helper", Asker.of(visitor), {})
    with refused("thread_not_found"):
        agent.thread(key, actor=visitor).send_sync("Hi")
    assert [thread.key for thread in Thread.objects.all()] == [key]


def test_another_users_session_carries_nothing_over(guest: Guest, ann: User, bob: User) -> None:
    """Django empties a session in which somebody else signs in."""
    an_agent("Hello!")
    guest.begin()
    guest.sign_in(ann)
    guest.sign_in(bob)
    assert Thread.objects.get().owner == ann


def test_carried_over_twice_it_is_the_first_ones(ann: User, bob: User) -> None:
    visitor = a_visitor()
    an_agent("Hello!").thread("one", actor=visitor).send_sync("Hi")
    assert visiting.carry_over(visitor.visitor, ann.pk) == 1
    assert visiting.carry_over(visitor.visitor, bob.pk) == 0
    assert Visitor.objects.get().user == ann
    assert visiting.carry_over(visitor.visitor, ann.pk) == 0
    assert Thread.objects.get().owner == ann


def test_two_sign_ins_at_once_have_one_winner(ann: User, bob: User) -> None:
    visitor = a_visitor()
    for number in range(5):
        posts.create(f"t{number}", "helper", Asker.of(visitor), {})
    found = at_once([lambda user=user: visiting.carry_over(visitor.visitor, user.pk) for user in [ann, bob] * 4])
    assert max(found) == 5
    assert sum(found) == 5
    assert Thread.objects.values("owner").distinct().count() == 1
    assert Visitor.objects.get().user == Thread.objects.first().owner  # type: ignore[union-attr]


def test_what_begins_while_somebody_signs_in_is_theirs_or_refused(ann: User) -> None:
    """Never a conversation that nobody has."""
    for _ in range(5):
        visitor = a_visitor()

        def begin(visitor: Any = visitor) -> bool:
            try:
                return posts.create(f"of-{visitor.visitor[:9]}", "helper", Asker.of(visitor), {})
            except PermissionDeniedError:
                return False

        at_once([begin, lambda visitor=visitor: visiting.carry_over(visitor.visitor, ann.pk)])
        assert not Thread.objects.filter(owner=None).exists()


@postgres_only
def test_what_an_agent_begins_below_while_somebody_signs_in_is_theirs(ann: User) -> None:
    """An asked agent's thread is made below its caller's lock, and nobody sees it before that is let go."""
    visitor = a_visitor()
    posts.create("one", "helper", Asker.of(visitor), {})
    caller = Thread.objects.get()

    @write
    def ask(session: Session) -> Other:
        assert lock(session, caller.pk) is not None
        signing_in = Other(lambda: visiting.carry_over(visitor.visitor, ann.pk))
        until_somebody_waits_for_a_lock()
        child = Thread(key="below", agent="other", parent_id=caller.pk, visitor=visitor.visitor)
        session.insert([child])
        run = Run(thread_id=child.pk, number=1, agent="other", visitor=visitor.visitor, input=[])
        session.insert([run])
        return signing_in

    assert ask().ended() == 2
    assert set(Thread.objects.values_list("owner", "visitor")) == {(ann.pk, "")}
    assert set(Run.objects.values_list("actor", "visitor")) == {(ann.pk, "")}


def test_a_visitor_is_remembered_from_the_sign_in_on(ann: User) -> None:
    visitor = a_visitor()
    posts.create("one", "helper", Asker.of(visitor), {})
    Visitor.objects.update(created_at=timezone.now() - timedelta(days=visiting.REMEMBERED_DAYS, hours=-1))
    before = timezone.now() - timedelta(minutes=1)
    visiting.carry_over(visitor.visitor, ann.pk)
    assert Visitor.objects.get().created_at > before


def test_a_visitors_row_may_be_gone(guest: Guest, ann: User) -> None:
    an_agent("Hello!")
    key = guest.begin()
    Visitor.objects.all().delete()
    assert guest.get(f"threads/{key}/").status_code == 200
    guest.begin()
    Visitor.objects.all().delete()
    guest.sign_in(ann)
    assert Thread.objects.filter(owner=ann).count() == 2


def test_a_deleted_users_conversations_are_not_the_visitors_again(guest: Guest, ann: User) -> None:
    an_agent("Hello!")
    key = guest.begin()
    old = visitors.AnonymousVisitor(visitors.digest(guest.token))
    guest.sign_in(ann)
    ann.delete()
    assert not Visitor.objects.exists()
    with refused("thread_not_found"):
        an_agent("x").thread(key, actor=old).send_sync("Hi")


def test_an_approval_that_waits_goes_on_as_the_users(guest: Guest, ann: User) -> None:
    actors = []

    @tool(approval="owner")
    def pay(context: ToolContext) -> str:
        """Pay."""
        actors.append(context.actor)
        return "paid"

    agent = an_agent([call("pay")], "done", tools=[pay])
    key = guest.begin()
    assert guest.send(key, "Hi")["status"] == "requires_action"
    guest.sign_in(ann)
    assert agent.thread(key, actor=ann).approve_sync().text == "done"
    assert actors == [ann]


def test_whoever_asked_as_a_visitor_does_not_approve_as_staff(guest: Guest) -> None:
    staff = a_user("staff", "decide_toolcall", staff=True)

    @tool(approval="staff")
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = an_agent([call("pay")], "done", tools=[pay])
    key = guest.begin()
    guest.send(key, "Hi")
    guest.sign_in(staff)
    with refused("permission_denied"):
        agent.thread(key, actor=staff).approve_sync()


def test_a_sign_in_inside_a_transaction_carries_over_after_its_commit(ann: User) -> None:
    request = _with_a_conversation()
    with transaction.atomic():
        login(request, ann, backend="django.contrib.auth.backends.ModelBackend")
        assert not Thread.objects.filter(owner=ann).exists()
    assert Thread.objects.get().owner == ann
    assert visitors.SESSION_NAME not in request.session


def test_a_sign_in_that_is_rolled_back_carries_nothing_over(ann: User) -> None:
    request = _with_a_conversation()
    with transaction.atomic():
        login(request, ann, backend="django.contrib.auth.backends.ModelBackend")
        transaction.set_rollback(True)
    assert Thread.objects.get().owner is None


def test_a_sign_in_does_not_fail_for_it(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    request = _with_a_conversation()

    def broken(*_: Any) -> int:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(visiting, "carry_over", broken)
        login(request, ann, backend="django.contrib.auth.backends.ModelBackend")
    assert request.user == ann
    assert Thread.objects.get().owner is None
    login(request, ann, backend="django.contrib.auth.backends.ModelBackend")  # the next one tries again
    assert Thread.objects.get().owner == ann


def test_a_sign_in_without_a_request_is_none_of_ours(ann: User) -> None:
    from django.contrib.auth.signals import user_logged_in

    user_logged_in.send(type(ann), request=None, user=ann)
    user_logged_in.send(type(ann), request=RequestFactory().get("/"), user=ann)


def _with_a_conversation() -> Any:
    request = request_of()
    request.session.create()
    visitor = visitors.actor(request, make=True)
    request.user = AnonymousUser()
    posts.create("one", "helper", Asker.of(visitor), {})
    return request
