"""How much may come from one address: exactly so much, however many requests come at once."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from criogen_threads import visitors
from criogen_threads.engine.journal import visiting
from criogen_threads.models import Run, Thread, Visitor, VisitorAddress
from tests.api.support import a_user, at_once, code_of
from tests.support import an_agent
from tests.visitors.support import Guest, a_visitor

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_address_begins_so_many_conversations(guest: Guest, other: Guest, settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS |= {"VISITOR_THREADS": 3}
    an_agent("Hello!")
    for _ in range(3):
        guest.begin()
    refusal = Guest().post("threads/", agent="helper")  # another visitor from the same address
    assert code_of(refusal, 429) == "too_many_threads"
    assert refusal.json()["details"]["limit"] == 3
    assert 3500 < refusal.json()["details"]["seconds"] <= 3600
    assert int(refusal["Retry-After"]) > 0
    assert Thread.objects.count() == 3
    other.begin()


def test_deleting_conversations_makes_no_room(guest: Guest, settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS |= {"VISITOR_THREADS": 2}
    an_agent("Hello!")
    for _ in range(2):
        assert guest.delete(f"threads/{guest.begin()}/").status_code == 204
    assert code_of(guest.post("threads/", agent="helper"), 429) == "too_many_threads"


def test_time_makes_room(guest: Guest, settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS |= {"VISITOR_THREADS": 2}
    an_agent("Hello!")
    for _ in range(2):
        guest.begin()
    row = VisitorAddress.objects.get()
    row.begun = [row.begun[0] - 3_600_001, row.begun[1]]
    row.save()
    guest.begin()
    assert code_of(guest.post("threads/", agent="helper"), 429) == "too_many_threads"
    assert len(VisitorAddress.objects.get().begun) == 2


def test_twenty_requests_at_once_get_exactly_what_the_limit_says(guest: Guest, settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS |= {"VISITOR_THREADS": 7}
    an_agent("Hello!")

    def begin() -> int:
        return int(Guest().post("threads/", agent="helper").status_code)

    assert Counter(at_once([begin] * 20)) == {201: 7, 429: 13}
    assert Thread.objects.count() == 7
    assert len(VisitorAddress.objects.get().begun) == 7


def test_twenty_first_messages_at_once_are_bounded_too(guest: Guest, settings: SettingsWrapper) -> None:
    """Not only ``POST threads/`` begins a conversation."""
    settings.CRIOGEN_THREADS |= {"VISITOR_THREADS": 5, "VISITOR_RUNS": 100}
    agent = an_agent("Hello!")

    def send(number: int) -> str:
        try:
            agent.thread(f"t{number}", actor=a_visitor()).submit_sync("Hi")
        except Exception as error:
            return str(getattr(error, "code", error))
        return "begun"

    found = at_once([lambda number=number: send(number) for number in range(20)])
    assert Counter(found) == {"begun": 5, "too_many_threads": 15}
    assert Thread.objects.count() == 5


def test_twenty_turns_at_once_get_exactly_what_the_limit_says(guest: Guest, settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS |= {
        "VISITOR_THREADS": 20, "VISITOR_RUNS": 4, "DISPATCHER": "criogen_threads.testing.LeftInLine",
    }  # fmt: skip
    an_agent("Hello!")
    guests = [Guest() for _ in range(20)]
    keys = [each.begin() for each in guests]

    def send(number: int) -> int:
        return int(guests[number].post(f"threads/{keys[number]}/runs/", text="Hi").status_code)

    found = at_once([lambda number=number: send(number) for number in range(20)])
    assert Counter(found) == {202: 4, 429: 16}
    assert Run.objects.count() == 4
    assert Guest("198.51.100.9").begin()
    elsewhere = guests[0].copy()
    elsewhere.client.defaults["REMOTE_ADDR"] = "198.51.100.9"
    assert elsewhere.post(f"threads/{keys[0]}/runs/", text="Hi").status_code == 202  # an address of its own


def test_users_are_not_bounded_by_their_address(settings: SettingsWrapper) -> None:
    settings.CRIOGEN_THREADS |= {"VISITOR_THREADS": 1, "VISITOR_RUNS": 1}
    an_agent("Hello!")
    user = Guest()
    user.client.force_login(a_user("ann"))
    for _ in range(3):
        user.begin()
    assert not VisitorAddress.objects.exists()


def test_what_is_over_is_forgotten(guest: Guest) -> None:
    an_agent("Hello!")
    guest.begin()
    visiting.forget_old()
    assert (Visitor.objects.count(), VisitorAddress.objects.count()) == (1, 1)
    VisitorAddress.objects.update(last_at=timezone.now() - timedelta(hours=2))
    Visitor.objects.update(created_at=timezone.now() - timedelta(days=31))
    visiting.forget_old()
    assert (Visitor.objects.count(), VisitorAddress.objects.count()) == (0, 0)


# Which address ----------------------------------------------------------------------------------------------------


def address(remote: str, forwarded: str = "") -> str:
    return visitors.address({"REMOTE_ADDR": remote, "HTTP_X_FORWARDED_FOR": forwarded})


def test_the_header_is_not_believed_without_a_proxy() -> None:
    assert address("203.0.113.5", "1.2.3.4") == address("203.0.113.5")
    assert "." not in address("203.0.113.5")


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
    [
        (1, "203.0.113.5", "203.0.113.5"),
        (1, "6.6.6.6, 203.0.113.5", "203.0.113.5"),  # what the client itself said is left of it
        (2, "6.6.6.6, 203.0.113.5, 10.0.0.2", "203.0.113.5"),
        (2, "203.0.113.5", "203.0.113.5"),
        (1, "6.6.6.6, not an address", "10.0.0.1"),
        (1, "", "10.0.0.1"),
        (1, "203.0.113.5, 2001:db8::7", "2001:db8::1"),
        (1, "::ffff:203.0.113.5", "203.0.113.5"),
    ],
)
def test_behind_proxies_it_is_what_the_outermost_saw(
    proxies: int, forwarded: str, expected: str, settings: SettingsWrapper
) -> None:
    settings.CRIOGEN_THREADS |= {"TRUSTED_PROXIES": proxies}
    found = address("10.0.0.1", forwarded)
    settings.CRIOGEN_THREADS |= {"TRUSTED_PROXIES": 0}
    assert found == address(expected)


def test_a_whole_ipv6_network_is_one_address() -> None:
    assert address("2001:db8::1") == address("2001:db8::ffff:1")
    assert address("2001:db8::1") != address("2001:db8:0:1::1")
    assert address("fe80::1%eth0") == address("fe80::2")
