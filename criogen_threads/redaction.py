"""What is shown to whom: pure functions over the views that the Python API returns.

One redaction for everything that leaves the site: REST, the feed, AG-UI, the admin and exports. It is about
tools: ``visible`` says who sees a tool's calls ("all", only its "name", or "staff"), ``secrets`` which of its
arguments nobody is shown. What a provider needs back (``provider`` in a block) is for providers only.

A tool that its agent does not have (any more) counts as ``visible="name"``, also for staff: nobody knows what it
kept secret. The site's own code, an audience without a user, is shown everything. Nothing is changed in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from criogen_threads.agents import find_tool, get_agent
from criogen_threads.agents.secrecy import MASK, shown_result
from criogen_threads.engine.journal import memories, usages
from criogen_threads.errors import AgentNotFoundError
from criogen_threads.policy import get_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from criogen_threads.models import Thread

View = dict[str, Any]

_TOOL_DETAILS = ("arguments", "edited_arguments", "result", "error", "reason")


@dataclass(frozen=True, slots=True)
class Audience:
    """Somebody who is shown something.

    Args:
        agent: The thread's agent: whose tools they are where a view names no agent.
        staff: Whether calls of tools with ``visible="staff"`` and ``"name"`` are shown in full.
        everything: The site's own code: nothing is hidden.
    """

    agent: str = ""
    staff: bool = False
    everything: bool = False

    def shown(self, agent: str, tool: str) -> str:
        """How much of a tool's calls is shown: "all", "name", or "" for nothing at all."""
        if self.everything:
            return "all"
        found = find_tool(agent or self.agent, tool)
        if found is None:
            return "name"
        if self.staff:
            return "all"
        return "" if found.visible == "staff" else str(found.visible)

    def sees_asking(self, agent: str) -> bool:
        """Whether it is shown which other agents work with this one: see ``Agency.visible``."""
        return self.everything or self.staff or _asks_openly(agent or self.agent)

    def secrets(self, agent: str, tool: str) -> Sequence[str]:
        """The arguments of a tool whose values are hidden."""
        found = None if self.everything else find_tool(agent or self.agent, tool)
        return () if found is None else found.secrets


def audience(user: Any, thread: Thread) -> Audience:
    """The audience that a user is for a thread; a user of None is the site's own code."""
    if user is None:
        return Audience(thread.agent, everything=True)
    return Audience(thread.agent, staff=get_policy().inspect(user, thread))


def _asks_openly(agent: str) -> bool:
    try:
        agency = get_agent(agent).agency
    except AgentNotFoundError:
        return False
    return agency is None or agency.visible == "all"


# Messages ------------------------------------------------------------------------------------------------------


def messages(views: Iterable[View], to: Audience) -> list[View]:
    """Messages as this audience sees them; those of which nothing is left are left out."""
    return [shown for view in views if (shown := message(view, to)) is not None]


def message(view: View, to: Audience) -> View | None:
    """One message; None where nothing of it is left."""
    if to.everything:
        return view
    shown = content(view["content"], view["agent"], to)
    if view["content"] and not shown:
        return None
    if to.sees_asking(view["agent"]):
        return {**view, "content": shown}
    metadata = {name: value for name, value in view["metadata"].items() if name not in memories.NAMES}
    return {**view, "content": shown, "metadata": metadata}


def content(blocks: Iterable[View], agent: str, to: Audience) -> list[View]:
    """The blocks of a message; ``agent`` is whose tools they speak of."""
    return [shown for block in blocks if (shown := _block(block, agent, to)) is not None]


def _block(block: View, agent: str, to: Audience) -> View | None:
    if to.everything:
        return block
    block = without(block, "provider")
    for kind, part in (("tool_call", "arguments"), ("tool_result", "content")):
        if kind in block:
            inner = block[kind]
            shown = to.shown(agent, inner["name"])
            if not shown:
                return None
            hidden = {**without(inner, "shown"), part: None, "hidden": True}
            return {**block, kind: hidden if shown == "name" else _unmasked_part(inner, part, agent, to)}
    return block or None


def _unmasked_part(inner: View, part: str, agent: str, to: Audience) -> View:
    if part != "arguments":
        return {**without(inner, "shown"), part: shown_result(inner)}
    return {**inner, part: masked(inner[part], to.secrets(agent, inner["name"]))}


def without(view: Mapping[str, Any], name: str) -> View:
    """A copy of a view that has no such key."""
    return {key: value for key, value in view.items() if key != name}


def masked(arguments: Any, secrets: Sequence[str]) -> Any:
    """Arguments with the values of secret ones replaced; text that is no JSON object is replaced as a whole."""
    if not secrets or arguments is None:
        return arguments
    if not isinstance(arguments, dict):
        return MASK
    return {name: MASK if name in secrets else value for name, value in arguments.items()}


def restored(edited: Mapping[str, Any], original: Any, secrets: Sequence[str]) -> dict[str, Any]:
    """Edited arguments with the secrets that the person was not shown, and so did not edit, put back."""
    known = original if isinstance(original, dict) else {}
    return {
        name: known[name] if name in secrets and value == MASK and name in known else value
        for name, value in edited.items()
    }


# Events and approvals ------------------------------------------------------------------------------------------


def events(views: Iterable[View], to: Audience) -> list[View]:
    """Events as this audience sees them; those about calls that are not shown are left out."""
    return [shown for view in views if (shown := event(view, to)) is not None]


def event(view: View, to: Audience) -> View | None:
    """One event; None where it speaks of a call that is not shown. Its ``seq`` is then missing, as others may be."""
    details = view["details"]
    if view["type"] == "summary" and not (to.everything or to.staff):
        return None  # it tells what tools said that are kept for staff
    if to.everything or "tool_name" not in details:
        return view
    shown = _details(details, view["agent"], to)
    return None if shown is None else {**view, "details": shown}


def approvals(views: Iterable[View], to: Audience, agent: str = "") -> list[View]:
    """Approvals, or other views of tool calls, as this audience sees them; ``digest`` stays: an answer is bound
    to it.

    Args:
        agent: Whose tools they are where a view does not say; by default the thread's agent.
    """
    shown = [_named(view, view["name"], view.get("agent") or agent, to) for view in views]
    return [_of_chain(view, to) for view in shown if view is not None]


def _of_chain(view: View, to: Audience) -> View:
    """An approval of an asked agent: who asked it, where this audience is shown that agents ask each other."""
    if not view.get("chain") or all(to.sees_asking(link["agent"]) for link in view["chain"]):
        return view
    return {**view, "agent": view["chain"][0]["agent"], "chain": []}


def run(view: View, to: Audience) -> View:
    """A run with the approvals that it waits for."""
    if not to.sees_asking(view["agent"]):
        view = {**view, "usage": without(view["usage"], usages.AGENTS)}
    waiting = view.get("required_action")
    if not waiting:
        return view
    return {**view, "required_action": approvals(waiting, to, view["agent"]) or None}


def tree(view: View, to: Audience) -> View:
    """A run as ``run_tree`` gives it, without the calls that this audience is not shown, and what is below them."""
    shown = [_branch(call, to) for call in view["calls"] if to.shown(call["agent"], call["tool_name"])]
    return {**run(view, to), "calls": shown}


def _branch(call: View, to: Audience) -> View:
    if call["run"] is None or not to.sees_asking(call["agent"]):
        return {**call, "run": None}
    return {**call, "run": tree(call["run"], to)}


def _details(details: View, agent: str, to: Audience) -> View | None:
    return _named(details, details["tool_name"], agent, to)


def _named(view: View, tool: str, agent: str, to: Audience) -> View | None:
    """What is shown of a dict that speaks of a call of this tool."""
    shown = to.shown(agent, tool)
    if not shown:
        return None
    if "shown" in view:  # the result repeats a secret
        told = "result" if "result" in view else "error"
        view = {**without(view, "shown"), told: view["shown"]}
    if shown == "name":
        hidden: View = {part: None for part in _TOOL_DETAILS if part in view}
        return {**view, **hidden, "hidden": True}
    secrets = to.secrets(agent, tool)
    parts: View = {part: masked(view[part], secrets) for part in ("arguments", "edited_arguments") if part in view}
    return {**view, **parts}
