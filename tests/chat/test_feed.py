"""The page and the feed: streaming, reloads, cuts, several tabs, stop, and networks without websockets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from criogen_threads.errors import CriogenError
from tests.browsers import aside
from tests.chat.support import answers, conversation, eventually, questions, rested, said, say
from tests.flush import stop_worker
from tests.streaming.puppet import wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chat.support import Visitor

pytestmark = pytest.mark.django_db(transaction=True)

COUNTED = ", ".join(map(str, range(400)))


def slowly(text: str = COUNTED) -> str:
    """A wish that takes some seconds to be told."""
    return wish(text, delay=0.02, chunk=9)


def begun(page: Any) -> None:
    """Some of the answer is there, and more is coming."""
    answers(page).last.get_by_text("0, 1, 2").wait_for()


def test_f51_a_reload_in_mid_stream_loses_and_doubles_nothing(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    say(page, slowly())
    for _ in range(2):
        begun(page)
        visitor.open()
    answers(page).get_by_text("398, 399").wait_for()
    rested(page)
    assert conversation(page) == said(visitor.stored())


def test_f44_f45_the_socket_is_cut_again_and_again(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    routes: list[Any] = []

    def through(route: Any) -> None:
        routes.append((route, route.connect_to_server()))

    visitor.page.route_web_socket("**/ws/**", through)
    page = visitor.open()
    say(page, slowly())
    for cuts in range(1, 4):
        begun(page)
        page.wait_for_timeout(150)  # at another place each time
        route, server = routes[-1]
        server.close()
        route.close(code=3000)
        page.get_by_text("Reconnecting").wait_for()
        eventually(lambda cuts=cuts: page.wait_for_timeout(25) or len(routes) > cuts)
        page.get_by_text("Reconnecting").wait_for(state="detached")
    answers(page).get_by_text("398, 399").wait_for()
    rested(page)
    assert conversation(page) == said(visitor.stored())


def test_f51_from_the_socket_to_polling_in_mid_stream(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    routes: list[Any] = []

    def once(route: Any) -> None:
        if routes:
            route.close(code=3000)
        else:
            routes.append((route, route.connect_to_server()))

    visitor.page.route_web_socket("**/ws/**", once)
    page = visitor.open()
    say(page, slowly(f"A **first** block.\n\n{COUNTED}"))
    answers(page).locator("strong").wait_for()
    begun(page)
    route, server = routes[0]
    server.close()
    route.close(code=3000)
    page.get_by_text("Live updates are blocked").wait_for()
    answers(page).get_by_text("398, 399").wait_for()
    rested(page)
    assert conversation(page)[1][1].replace("\n", "") == f"A first block.{COUNTED}"


def test_f45_the_feed_alone_tells_a_long_conversation_from_its_beginning(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="ERR_FAILED")
    for number in range(3):
        long = f', "pad": "{number} {"long " * 100_000}"}}'  # more than the server sends unread
        aside(visitor.handle().send_sync, wish("Fine.").removesuffix("}") + long)
    visitor.page.route("**/messages/**", lambda route: route.abort())
    page = visitor.open()
    eventually(lambda: page.wait_for_timeout(25) or len(conversation(page)) == 6)
    assert conversation(page) == said(visitor.stored())


def test_f07_a_message_that_did_not_get_through_is_sent_once(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="ERR_INTERNET_DISCONNECTED")
    page = visitor.open()
    visitor.context.set_offline(True)
    say(page, "Are you there?")
    page.get_by_text("Not sent.").wait_for()
    visitor.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    answers(page).get_by_text("You said: Are you there?").wait_for()
    assert conversation(page) == said(visitor.stored()) == [
        ("user", "Are you there?"), ("assistant", "You said: Are you there?"),
    ]  # fmt: skip


def test_f18_f46_several_tabs_are_in_step_and_stop_in_one_stops_in_all(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    one = visitor.open()
    two = visitor.open(visitor.tab())
    say(one, slowly())
    begun(one)
    begun(two)
    two.get_by_role("button", name="Stop").click()
    for page in (one, two):
        page.locator(".note").get_by_text("Stopped.").wait_for()
        rested(page)
    partial = one.locator(".partial").inner_text()
    assert COUNTED.startswith(partial)
    assert "399" not in partial
    assert two.locator(".partial").inner_text() == partial
    visitor.open(two)
    assert two.locator(".partial").inner_text() == partial  # it is the server's
    two.get_by_role("button", name="Try again").click()
    for page in (one, two):
        answers(page).get_by_text("398, 399").wait_for()
        rested(page)
        assert page.locator(".partial").count() == 0
        assert conversation(page) == said(visitor.stored())


def test_p15_an_interrupted_answer_is_continued_by_whoever_reads_it(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()

    def run_here() -> str:
        try:
            visitor.handle().send_sync(slowly())
        except CriogenError as error:
            return error.code
        return ""

    with ThreadPoolExecutor(1) as pool:
        dying = pool.submit(run_here)
        begun_or_not = page.get_by_role("button", name="Stop")
        begun_or_not.wait_for()
        aside(stop_worker)
        assert dying.result() in ("lease_lost", "shutting_down", "thread_interrupted")
    page.locator(".note").get_by_text("The answer was interrupted.").wait_for()
    page.get_by_role("button", name="Continue").click()
    answers(page).get_by_text("398, 399").wait_for()
    rested(page)
    assert conversation(page) == said(visitor.stored())


def test_a_failed_answer_is_tried_again(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.open()
    say(page, wish("It works now, after a while.", fails=4))
    page.locator(".note").get_by_text("The assistant could not be reached.").wait_for()
    visitor.open()
    page.get_by_role("button", name="Try again").click()
    answers(page).get_by_text("It works now").wait_for()
    rested(page)
    assert conversation(page) == said(visitor.stored())


def test_where_websockets_are_blocked_the_page_polls_and_says_so(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="WebSocket connection")
    page = visitor.open(socket="nothing/here/")
    page.get_by_text("Live updates are blocked").wait_for()
    say(page, wish([{"text": "Pay?"}, {"tool_call": {"name": "pay", "arguments": {"amount": 3}}}], "It is **done**."))
    page.get_by_role("button", name="Approve").click()
    answers(page).locator("strong", has_text="done").wait_for()
    rested(page)
    assert [role for role, _ in conversation(page)] == ["user", "assistant", "assistant"]


def test_a_cursor_that_is_refused_is_not_asked_for_again(visit: Callable[..., Visitor]) -> None:
    visitor = visit(tolerated="400 (Bad Request)")
    refusal = {"code": "invalid_option", "detail": "cursor is from the next of a page"}
    refused: list[str] = []

    def refuse(route: Any) -> None:
        refused.append(route.request.url)
        route.fulfill(status=400, json=refusal)

    visitor.page.route_web_socket("**/ws/**", lambda route: route.close(code=3000))
    visitor.page.route("**/feed/*cursor=*", refuse)
    aside(visitor.handle().send_sync, "one")
    page = visitor.open()
    eventually(lambda: page.wait_for_timeout(25) or refused)
    say(page, "Hello")
    answers(page).get_by_text("You said: Hello").wait_for()
    rested(page)
    assert conversation(page) == said(visitor.stored())


def test_f59_the_work_for_a_piece_does_not_grow_with_what_is_there(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.page.add_init_script(COUNTING)
    page = visitor.open(agent="teller")
    say(page, "Tell me 200000 characters")
    rested_at = page.get_by_role("button", name="Stop")
    rested_at.wait_for()
    rested_at.wait_for(state="detached", timeout=60_000)
    work = page.evaluate("work")
    stored = said(visitor.stored())[-1][1]
    assert len(stored) > 199_000
    assert "".join(conversation(page)[-1][1].split()) == "".join(stored.split())
    assert work["pieces"] > 20
    assert work["written"] < 2.5 * len(stored), work  # as it comes, once more when it is whole, and the HTML of a part
    assert work["largest"] < 10_000, work


COUNTING = """
window.work = {pieces: 0, written: 0, largest: 0};
const append = CharacterData.prototype.appendData;
CharacterData.prototype.appendData = function (text) {
  append.call(this, text);
  work.pieces += 1;
  work.written += text.length;
  work.largest = Math.max(work.largest, this.length);
};
for (const [owner, name] of [[Element.prototype, "innerHTML"], [Node.prototype, "textContent"]]) {
  const setter = Object.getOwnPropertyDescriptor(owner, name);
  const set = function (text) { work.written += text.length; setter.set.call(this, text); };
  Object.defineProperty(owner, name, {...setter, set});
}
"""


def test_f53_f60_arabic_and_emoji_arrive_whole_and_each_block_has_its_direction(visit: Callable[..., Visitor]) -> None:
    text = "مرحبا، كيف يمكنني مساعدتك؟ 👩‍👩‍👧\n\nThis is English 🏳️‍🌈.\n\n- عنصر أول\n- second"
    visitor = visit()
    page = visitor.open()
    say(page, wish(text, chunk=1, delay=0.01))
    rested_at = page.get_by_role("button", name="Stop")
    rested_at.wait_for()
    rested_at.wait_for(state="detached")
    answers(page).locator("li").nth(1).wait_for()
    directions = answers(page).locator("p, li").evaluate_all("all => all.map(each => getComputedStyle(each).direction)")
    assert directions == ["rtl", "ltr", "rtl", "ltr"]
    assert "👩‍👩‍👧" in conversation(page)[-1][1]
    page.get_by_role("textbox", name="Message").fill("سؤال")
    assert page.get_by_role("textbox", name="Message").evaluate("box => box.matches(':dir(rtl)')")
    say(page, "سؤال")
    questions(page).get_by_text("سؤال", exact=True).wait_for()


def test_f58_earlier_pages_and_live_text_do_not_touch_each_other(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    for number in range(30):
        aside(visitor.handle().send_sync, f"question {number}")
    page = visitor.open()
    answers(page).get_by_text("question 29").wait_for()
    say(page, slowly())
    begun(page)
    page.locator(".scroll").evaluate("node => node.scrollTop = 0")
    questions(page).get_by_text("question 0", exact=True).wait_for()
    answers(page).get_by_text("398, 399").wait_for()
    rested(page)
    assert conversation(page) == said(visitor.stored())
