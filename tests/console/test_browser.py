"""The console in a real browser: staff find, read, edit, approve, reject, rewind, retry and export.

``SCREENSHOTS`` names a folder that gets a picture of every page, light and dark.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
import pytest
from django.conf import settings as configured
from django.core import mail

from criogen_threads.models import Checkpoint, Run, ToolCall
from tests.browsers import PATIENCE, aside, faults, picture
from tests.console.support import Staff, a_waiting_thread, clerk, completed, customer, eventually, ran, thread
from tests.support import call as asks

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.django_db(transaction=True)


class Desk:
    """One member of the staff at one browser; complaints of the page (CSP, script errors) fail the test."""

    def __init__(
        self, browser: Any, person: Staff, address: str, scheme: str, width: int = 1200, locale: str = "en"
    ) -> None:
        size = {"width": width, "height": 900}
        self.context = browser.new_context(color_scheme=scheme, viewport=size, locale=locale)
        cookie = person.client.cookies[configured.SESSION_COOKIE_NAME].value
        self.context.add_cookies([{"name": configured.SESSION_COOKIE_NAME, "value": cookie, "url": address}])
        self.address, self.scheme = address, scheme
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, said: Any) -> None:
        if said.type == "error" and not said.location.get("url", "").endswith("/favicon.ico"):
            self.complaints.append(said.text)

    def go(self, path: str) -> Any:
        self.page.goto(f"{self.address}{path}")
        return self.page

    def looked_at(self, name: str) -> None:
        """axe finds nothing, the page complains of nothing; a picture for those who want one."""
        self.page.wait_for_load_state("networkidle")
        assert (faults(self.page), self.complaints) == ([], []), name
        version = ".".join(map(str, django.VERSION[:2]))
        picture(self.page, f"console-{name}-{self.scheme}-{version}", full_page=True)


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def desks(chromium: Any, served: str, scheme: str) -> Iterator[Any]:
    made: list[Desk] = []

    def sit(person: Staff, width: int = 1200, **options: Any) -> Desk:
        made.append(Desk(chromium, person, served, scheme, width, **options))
        return made[-1]

    ran.clear()
    yield sit
    for desk in made:
        desk.context.close()


def test_c7_from_the_index_to_a_finished_run(desks: Any, approver: Staff) -> None:
    call = aside(a_waiting_thread, last="It is **done**.", note="for\u202e ann", card="4111")
    aside(a_waiting_thread, "two", last="It is **done**.", order="B-2")
    desk = desks(approver)
    page = desk.go("/admin/")
    desk.looked_at("index")
    page.get_by_role("link", name="2 approvals wait for you").click()
    desk.looked_at("queue")
    assert page.locator("#changelist .results").evaluate("each => each.scrollWidth - each.clientWidth") == 0
    page.locator("#result_list a", has_text="refund").first.click()
    desk.looked_at("approval")
    seen = [page.get_by_role("heading", name="Approval of refund"), page.get_by_role("button", name="Reject")]
    assert all(each.bounding_box()["y"] < 800 for each in seen), "what is asked and the answer are in view together"
    assert page.locator(".criogen-card .criogen-mark").first.inner_text() == "U+202E"
    page.get_by_text("Edit the arguments").click()
    page.get_by_label("amount").fill("3")
    desk.looked_at("approval-edit")
    page.get_by_role("button", name="Approve").click()
    desk.looked_at("approval-review")
    page.get_by_role("button", name="Approve with these changes").click()
    page.get_by_text("Approved. The run goes on.").wait_for()
    completed()
    assert ran == [("A-1", 3, "for\u202e ann", "4111", False)]
    desk.looked_at("approval-after")
    desk.go(f"/admin/criogen_threads/thread/{call.thread_id}/change/")
    page.get_by_text("It is done.").wait_for()
    desk.looked_at("story")
    page.locator("summary", has_text="refund").click()
    desk.looked_at("story-open")


def test_c7_from_the_mail_reject_with_a_reason_and_two_browsers_at_once(
    desks: Any, approver: Staff, boss: Staff, served: str, settings: Any
) -> None:
    settings.CRIOGEN_THREADS = {**settings.CRIOGEN_THREADS, "NOTIFY_EMAIL": True, "NOTIFY_SITE": served}
    type(approver.user).objects.filter(pk=approver.user.pk).update(email="approver@example.com")
    call = aside(a_waiting_thread)
    eventually(lambda: bool(mail.outbox))
    link = re.search(r"http\S+", mail.outbox[0].body)
    assert link is not None
    one, two = desks(approver), desks(boss)
    one.page.goto(link[0])
    two.go(f"/admin/criogen_threads/approval/{call.pk}/change/")
    two.page.evaluate("void (window.fetch = () => new Promise(() => {}))")  # it does not hear of the other's answer
    one.page.get_by_label("Reason").fill("too late")
    one.page.get_by_role("button", name="Reject").click()
    one.page.get_by_text("Rejected.").wait_for()
    two.page.get_by_role("button", name="Approve").click()
    two.page.get_by_text("pprover has already answered this").wait_for()
    two.looked_at("late")
    completed()
    assert ran == []
    assert ToolCall.objects.get(pk=call.pk).reason == "too late"


def test_f28_f57_the_page_of_an_approval_hears_that_somebody_else_answered(
    desks: Any, approver: Staff, boss: Staff
) -> None:
    call = aside(a_waiting_thread, last="It is **done**.")
    one, two = desks(approver), desks(boss)
    for desk in (one, two):
        desk.go(f"/admin/criogen_threads/approval/{call.pk}/change/")
    two.page.evaluate("window.same = true")
    two.page.get_by_label("Reason").fill("because")
    one.page.get_by_role("button", name="Approve").click()
    two.page.get_by_text("approved by approver").first.wait_for()
    two.page.get_by_role("button", name="Approve").wait_for(state="hidden")
    two.page.get_by_text("It is done.").wait_for()
    two.page.locator(".criogen-answered .criogen-idle").wait_for()
    assert not two.page.get_by_text("expires in").is_visible()
    assert two.page.evaluate("window.same") is True  # without a reload
    assert two.page.get_by_label("Reason").input_value() == "because"
    two.looked_at("answered-elsewhere")
    completed()


def test_c7_several_at_once(desks: Any, approver: Staff) -> None:
    aside(a_waiting_thread)
    aside(a_waiting_thread, "two", order="B-2")
    desk = desks(approver)
    page = desk.go("/admin/criogen_threads/approval/")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("approve_selected")
    page.get_by_role("button", name=re.compile("Go|Run")).click()
    desk.looked_at("bulk")
    page.get_by_role("button", name="Approve all of them").click()
    desk.looked_at("bulk-report")
    completed("one")
    completed("two")
    assert len(ran) == 2


def test_c7_rewind_retry_and_export(desks: Any, boss: Staff) -> None:
    agent = clerk([asks("mail", to="bob")], "Sent.", "Bye.", "Bye again.")
    for text in ("hello", "bye"):
        aside(agent.thread("one", actor=customer()).send_sync, text)
    found = thread()
    desk = desks(boss)
    page = desk.go("/admin/criogen_threads/thread/")
    desk.looked_at("threads")
    page.get_by_role("link", name="one").click()
    for tab in ("Runs", "Events", "History"):
        page.get_by_role("navigation", name="Pages of this thread").get_by_role("link", name=tab).click()
        desk.looked_at(tab.lower())
    page.get_by_role("link", name="Rewind… 2", exact=True).click()
    desk.looked_at("rewind")
    page.get_by_role("button", name="Rewind").click()
    page.get_by_text("Rewound to version 2").wait_for()
    page.get_by_role("link", name="History", exact=True).click()
    desk.looked_at("history-forked")
    page.get_by_role("button", name="Show the differences").click()
    desk.looked_at("differences")
    page.get_by_role("link", name="Story", exact=True).click()
    page.get_by_role("button", name="Retry").click()
    page.get_by_text("The run goes on.").wait_for()
    eventually(lambda: Run.objects.filter(thread=found).count() == 3)
    completed()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export as JSON").click()
    assert json.loads(Path(download.value.path()).read_text())["thread"]["key"] == "one"
    assert Checkpoint.objects.filter(thread=found, source="fork").exists()
    page.get_by_role("link", name="Delete…").click()
    desk.looked_at("delete")


def test_a_live_thread_refreshes_itself_and_keeps_what_was_opened(desks: Any, boss: Staff) -> None:
    import asyncio

    from criogen_threads.backends.scripted import ScriptedModel

    go: list[bool] = []

    async def respond(messages: Any, tools: Any) -> Any:
        if messages[-1]["role"] == "user":
            return [asks("look_up", order="A-1")]
        while not go:
            await asyncio.sleep(0.01)
        return "Here it is."

    aside(clerk(model=ScriptedModel(respond)).thread("one", actor=customer()).submit_sync, "hello")
    eventually(lambda: ToolCall.objects.filter(status="done").exists())
    desk = desks(boss)
    page = desk.go(f"/admin/criogen_threads/thread/{thread().pk}/change/")
    page.get_by_text("This page follows it.").wait_for()
    page.locator("summary", has_text="look_up").click()
    cancel, retry = (page.get_by_role("button", name=name) for name in ("Cancel the run", "Retry"))
    assert (cancel.is_visible(), retry.is_visible()) == (True, False)
    desk.looked_at("live")
    page.evaluate("window.same = true")
    go.append(True)
    page.get_by_text("Here it is.").wait_for()
    assert page.evaluate("window.same") is True  # without a reload
    assert page.locator("details[open]", has_text="look_up").count() == 1
    completed()
    page.get_by_text("This page follows it.").wait_for(state="detached")
    cancel.wait_for(state="hidden")


def test_a_live_thread_offers_what_can_be_done_when_its_run_fails(desks: Any, boss: Staff) -> None:
    import asyncio

    from criogen_threads.backends.scripted import ScriptedModel

    go: list[bool] = []

    async def respond(messages: Any, tools: Any) -> Any:
        while not go:
            await asyncio.sleep(0.01)
        if len(go) == 1:
            raise RuntimeError("the provider is down")
        return "Here I am."

    aside(clerk(model=ScriptedModel(respond)).thread("one", actor=customer()).submit_sync, "hello")
    eventually(lambda: Run.objects.filter(status="in_progress").exists())
    desk = desks(boss)
    page = desk.go(f"/admin/criogen_threads/thread/{thread().pk}/change/")
    cancel, retry = (page.get_by_role("button", name=name) for name in ("Cancel the run", "Retry"))
    assert (cancel.is_visible(), retry.is_visible()) == (True, False)
    go.append(True)
    retry.wait_for()
    assert not cancel.is_visible()
    page.get_by_text("the provider is down").wait_for()
    desk.looked_at("failed")
    go.append(True)
    retry.click()
    page.get_by_text("Here I am.").wait_for()
    completed()
