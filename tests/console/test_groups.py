"""``manage.py criogen_groups``."""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command

from criogen_threads.management.commands.criogen_groups import GROUPS
from tests.console.support import Staff, a_waiting_thread, thread

pytestmark = pytest.mark.django_db(transaction=True)


def made() -> str:
    out = StringIO()
    call_command("criogen_groups", stdout=out)
    return out.getvalue()


def test_groups_are_made_once_and_have_their_permissions() -> None:
    assert made().count("made") == 3
    assert made().count("up to date") == 3
    for name, codenames in GROUPS.items():
        found = Group.objects.get(name=name).permissions.values_list("codename", flat=True)
        assert sorted(found) == sorted(codenames)


@pytest.mark.parametrize(
    ("group", "answers", "deletes"),
    [("viewer", 403, 403), ("approver", 302, 403), ("operator", 302, 302)],
)
def test_a_member_may_what_the_group_is_for(group: str, answers: int, deletes: int) -> None:
    made()
    member = Staff("member")
    member.user.groups.add(Group.objects.get(name=f"Conversations: {group}"))
    call = a_waiting_thread()
    assert member.answer(call, "reject", follow=False).status_code == answers
    assert member.post(f"thread/{thread().pk}/cancel/", {"run": str(call.run_id)}).status_code == deletes
