"""What a tool shows to whom, on every way out of the HTTP API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from criogen_threads import redaction
from criogen_threads.agents import ToolError, tool
from criogen_threads.agents.secrecy import MASK
from criogen_threads.models import ToolCall
from criogen_threads.redaction import Audience
from criogen_threads.streaming.showing import Viewer
from tests.api.support import Api, a_user
from tests.support import Heard, an_agent, call, results

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

SECRET, PLAIN, RESULT = "s3cr3t-pin", "plain-value", "the-result"
VISIBLE = ("all", "name", "staff")


def make_tools(approval: str | None = None) -> list[Any]:
    def act(pin: str, note: str) -> str:
        return RESULT

    return [
        tool(name=f"t_{visible}_{kind}", visible=visible, secrets=secrets, approval=approval)(act)
        for visible in VISIBLE
        for kind, secrets in (("open", ()), ("secret", ("pin",)))
    ]


def talk(owner: User, name: str, approval: str | None = None) -> None:
    """One turn that calls this tool, through an agent that has all six."""
    asked = [{"text": "Let me see.", "provider": {"signature": "sig-1"}}, call(name, pin=SECRET, note=PLAIN)]
    an_agent(asked, "Done.", tools=make_tools(approval)).thread("one", actor=owner).send_sync("hi")


WAYS_OUT = ("threads/one/messages/", "threads/one/events/", "threads/one/runs/", "approvals/")


def everything(api: Api) -> str:
    """All that this person is shown of the thread, on every way out."""
    answers = [api.get(path) for path in WAYS_OUT]
    run_id = answers[2].json()["results"][0]["id"]
    answers.append(api.get(f"runs/{run_id}/"))
    answers.append(api.get("threads/one/"))
    assert all(answer.status_code == 200 for answer in answers)
    return " ".join(answer.content.decode() for answer in answers)


@pytest.mark.parametrize("kind", ["open", "secret"])
@pytest.mark.parametrize("visible", VISIBLE)
@pytest.mark.parametrize("person", ["owner", "viewer"])
def test_every_visibility_and_secret_on_every_way_out(owner: User, person: str, visible: str, kind: str) -> None:
    name = f"t_{visible}_{kind}"
    talk(owner, name)
    viewer = a_user("viewer", "view_transcript", staff=True)
    shown = everything(Api(owner if person == "owner" else viewer))
    full = visible == "all" or person == "viewer"
    assert (name in shown) == (full or visible == "name")
    assert (PLAIN in shown) == full
    assert (RESULT in shown) == full
    assert (SECRET in shown) == (full and kind == "open")
    assert (MASK in shown) == (full and kind == "secret")
    assert "sig-1" not in shown  # what a provider needs back is shown to nobody
    assert "Let me see." in shown


@pytest.mark.parametrize("kind", ["open", "secret"])
@pytest.mark.parametrize("visible", VISIBLE)
def test_the_one_who_answers_sees_the_arguments_but_no_secret(
    owner: User, approver: User, visible: str, kind: str
) -> None:
    name = f"t_{visible}_{kind}"
    talk(owner, name, approval="staff")
    [queued] = Api(approver).get("approvals/").json()["results"]
    assert queued["arguments"] == {"pin": MASK if kind == "secret" else SECRET, "note": PLAIN}
    assert queued["digest"] == ToolCall.objects.get().arguments_digest
    [run] = Api(owner).get("threads/one/runs/").json()["results"]
    if visible == "staff":
        assert run["required_action"] is None
    else:
        [waiting] = run["required_action"]
        assert waiting["arguments"] == (queued["arguments"] if visible == "all" else None)


def test_an_edit_keeps_the_secret_that_was_not_shown(owner: User, approver: User) -> None:
    talk(owner, "t_all_secret", approval="staff")
    [queued] = Api(approver).get("approvals/").json()["results"]
    edited = {**queued["arguments"], "note": "edited-value"}
    path = f"approvals/{queued['id']}/decide/"
    assert Api(approver).post(path, approve=True, arguments=edited).status_code == 202
    assert ToolCall.objects.get().edited_arguments == {"pin": SECRET, "note": "edited-value"}
    owner_api = Api(owner)
    owner_api.post("threads/one/retry/?wait=10")
    shown = everything(owner_api)
    assert "edited-value" in shown
    assert SECRET not in shown


def test_a_tool_that_is_gone_shows_its_name_only(owner: User) -> None:
    talk(owner, "t_all_secret")
    an_agent("Done.", tools=[])
    for person in (owner, a_user("boss", superuser=True)):
        shown = everything(Api(person))
        assert "t_all_secret" in shown
        assert SECRET not in shown
        assert PLAIN not in shown


@pytest.mark.parametrize("ends", ["returns", "fails", "does not fit"])
@pytest.mark.parametrize("atomic", [False, True])
def test_a_result_that_repeats_a_secret_does_not_show_it(owner: User, ends: str, atomic: bool) -> None:
    """Nobody is shown it; the model, which knows it, and the site's own code are."""

    def act(pin: Annotated[str, Field(max_length=100 if ends != "does not fit" else 5)]) -> Any:
        if ends == "fails":
            raise ToolError(f"{pin} is wrong")
        return {"checked": [pin]}

    acting = tool(name="act", description="Acts.", secrets=["pin"], atomic=atomic)(act)
    model = Heard([call("act", pin=SECRET)], "Done.")
    chat = an_agent(model=model, tools=[acting]).thread("one", actor=owner)
    chat.send_sync("hi")
    for person in (owner, a_user("viewer", "view_transcript", staff=True)):
        shown = everything(Api(person))
        assert SECRET not in shown
        assert shown.count(MASK) >= (4 if ends != "does not fit" else 2)  # arguments and result, messages and events
    [told] = results(model.given[-1])
    assert (SECRET in json.dumps(told)) == (ends != "does not fit")
    assert [told] == results(chat.messages_sync())


def test_an_event_that_is_not_shown_leaves_a_gap_and_pages_go_on(owner: User) -> None:
    talk(owner, "t_staff_open")
    api = Api(owner)
    seen: list[int] = []
    path = "threads/one/events/?limit=2"
    while path:
        page = api.get(path).json()
        seen += [event["seq"] for event in page["results"]]
        path = (page["next"] or "").partition("/api/")[2]
    all_of_it = [event["seq"] for event in owner_events(owner)]
    assert seen == [seq for seq in all_of_it if seq in seen]
    assert 0 < len(seen) < len(all_of_it)
    assert page["seq"] == all_of_it[-1]


def owner_events(owner: User) -> list[dict[str, Any]]:
    return an_agent("x").thread("one").get_events_sync()


def test_the_sites_own_code_is_shown_everything(owner: User) -> None:
    talk(owner, "t_staff_secret")
    handle = an_agent("x").thread("one", actor=owner)
    assert SECRET in json.dumps(handle.messages_sync())  # the Python API shows what is stored
    views = handle.messages_sync()
    assert redaction.messages(views, Audience(everything=True)) == views


# The functions themselves --------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(arguments=JSON)
def test_no_secret_survives_masking_whatever_the_arguments_are(arguments: Any) -> None:
    shown = redaction.masked(arguments, ["pin"])
    if isinstance(arguments, dict):
        assert shown.keys() == arguments.keys()
        assert shown.get("pin", MASK) == MASK
        assert redaction.restored(shown, arguments, ["pin"]) == arguments
    elif arguments is not None:
        assert shown == MASK


def test_live_pieces_of_arguments_are_shown_to_whom_the_whole_is() -> None:
    an_agent("x", tools=make_tools())

    def shown(name: str, *, staff: bool) -> bool:
        return Viewer(None, Audience("helper", staff=staff)).sees_live("", name)

    assert shown("t_all_open", staff=False)
    assert not shown("t_all_secret", staff=False)  # half a JSON text cannot be masked
    assert not shown("t_all_secret", staff=True)
    assert not shown("t_name_open", staff=False)
    assert not shown("t_staff_open", staff=False)
    assert shown("t_staff_open", staff=True)
    assert not shown("unknown", staff=True)


def test_nothing_is_changed_in_place() -> None:
    an_agent("x", tools=make_tools())
    block = {"tool_call": {"id": "1", "name": "t_all_secret", "arguments": {"pin": SECRET}}, "provider": {"a": 1}}
    view = {"content": [block], "agent": "helper"}
    before = json.dumps(view)
    shown = redaction.message(view, Audience("helper"))
    assert shown == {"content": [{"tool_call": {**block["tool_call"], "arguments": {"pin": MASK}}}], "agent": "helper"}
    assert json.dumps(view) == before
    raw = {"tool_call": {"id": "1", "name": "t_all_secret", "arguments": f'{{"pin": "{SECRET}'}}
    assert redaction.content([raw], "helper", Audience())[0]["tool_call"]["arguments"] == MASK
