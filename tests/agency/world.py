"""Agencies made at random: who may ask whom, who does, and which of their tools need a person."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from criogen_threads import errors
from criogen_threads.agents import Agent, Tool, ToolContext
from criogen_threads.backends.scripted import ScriptedModel
from criogen_threads.engine.journal import branches, families
from criogen_threads.models import Run, Thread, ToolCall
from tests.agency.support import an_agency, ask, threads_of
from tests.crash.checks import check_one_tree
from tests.support import call, is_valid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from criogen_threads.agents import Agency

NAMES = ("a", "b", "c", "d")
KINDS = ("plain", "atomic", "approved", "broken")


@dataclass(frozen=True)
class Plan:
    """A whole agency. A round of a script is what one answer asks for; behind the last one comes text."""

    delegates: dict[str, list[str]]
    hands_over: dict[str, list[str]]
    scripts: dict[str, list[list[tuple[str, str]]]]
    max_depth: int


def _edges(most: int) -> st.SearchStrategy[dict[str, list[str]]]:
    def others(name: str) -> st.SearchStrategy[list[str]]:
        return st.lists(
            st.sampled_from([other for other in NAMES if other != name]), min_size=most - 1, max_size=most, unique=True
        )

    return st.fixed_dictionaries({name: others(name) for name in NAMES})


_calls = st.one_of(
    *[st.tuples(st.just("ask"), st.sampled_from(NAMES[1:]))] * 4,
    st.tuples(st.just("tool"), st.sampled_from(KINDS)),
    st.tuples(st.just("leave"), st.sampled_from(NAMES)),
)
_scripts = st.lists(st.lists(_calls, min_size=1, max_size=3), min_size=1, max_size=2)
plans = st.builds(
    Plan, _edges(3), _edges(1), st.fixed_dictionaries(dict.fromkeys(NAMES, _scripts)), st.integers(1, 3)
)  # fmt: skip


class World:
    """What the tools did, by the key of the call; and the agency of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.effects: Counter[str] = Counter()
        self.refused: list[str] = []
        self.agency = self._agency(plan)

    def _agency(self, plan: Plan) -> Agency:
        agents = [
            Agent(name, model=ScriptedModel(self._model(plan.scripts[name])), tools=self._tools(), max_steps=8)
            for name in NAMES
        ]
        return an_agency(
            entry=agents[0], specialists=agents[1:], delegates=plan.delegates, hands_over=plan.hands_over,
            max_depth=plan.max_depth,
        )  # fmt: skip

    def _model(self, script: list[list[tuple[str, str]]]) -> Callable[..., Any]:
        def respond(messages: Sequence[Mapping[str, Any]], _tools: object) -> Any:
            if not is_valid([dict(message) for message in messages]):
                self.refused.append(str(messages))
            roles = [message["role"] for message in messages]
            answered = roles[::-1][: roles[::-1].index("user")].count("assistant")
            return [_block(*each) for each in script[answered]] if answered < len(script) else "done"

        return respond

    def _tools(self) -> list[Tool]:
        def plain(context: ToolContext) -> str:
            self.effects[context.idempotency_key] += 1
            return "ok"

        def broken(context: ToolContext) -> str:
            self.effects[context.idempotency_key] += 1
            raise ValueError("broken")

        return [
            Tool(plain),
            Tool(plain, name="atomic", atomic=True),
            Tool(plain, name="approved", approval="owner"),
            Tool(broken),
        ]


def _block(kind: str, which: str) -> dict[str, Any]:
    if kind == "ask":
        return ask(which)
    return call("hand_over", agent=which) if kind == "leave" else call(which)


# What has to be true -----------------------------------------------------------------------------------------------


def check(key: str, world: World) -> None:
    """Whenever nothing runs: every run has ended or waits, nothing is orphaned, and the events are one tree."""
    assert not world.refused, world.refused[0]
    threads = threads_of(key)
    runs = {run.pk: run for run in Run.objects.filter(thread__in=threads)}
    for thread in threads:
        _check_thread(thread)
    for run in runs.values():
        assert run.status in ("requires_action", "completed", "failed"), (run.agent, run.status)
        if run.parent_run_id is not None:
            _check_asked(run, runs[run.parent_run_id])
    check_one_tree([thread.pk for thread in threads])
    _check_effects([thread.pk for thread in threads], world)


def _check_thread(thread: Thread) -> None:
    calls = ToolCall.objects.filter(thread=thread, run=thread.current_run_id)
    waiting = calls.filter(status__in=("awaiting_approval", "waiting")).count()
    assert (thread.holder, thread.cancel_mark, thread.pending) == (None, None, waiting)
    if thread.status == "suspended" and not waiting:  # answered: it goes on when those beside it are answered too
        first = families.top(thread.pk)
        assert first
        assert (first.status, first.pending > 0) == ("suspended", True), "nobody takes it up"
    else:
        assert (thread.status == "suspended") == (waiting > 0), "it waits for nobody, or does not say so"
    assert not ToolCall.objects.filter(thread=thread, status="running").exists()
    assert not calls.rested().exists(), "it waits for a run that does not wait"
    assert thread.head
    said = [{"role": m.role, "content": m.content} for m in branches.messages(thread.head.message_id)]
    if thread.status == "idle":
        assert is_valid(said)


def _check_asked(run: Run, caller: Run) -> None:
    """A run that another one asked for waits with it, and ends no later."""
    if run.status == "requires_action":
        assert caller.status == "requires_action", "an orphan"
    if caller.status == "completed":
        by = ToolCall.objects.filter(child_run=run.pk).get()
        assert by.result_id is not None


def _check_effects(threads: list[Any], world: World) -> None:
    """A rejected call never ran; one that is done did."""
    settled = ToolCall.objects.filter(thread__in=threads, result__isnull=False, child_run=None)
    for row in settled.exclude(name="hand_over"):
        effects = world.effects[f"{row.run_id}:{row.step}:{row.index}"]
        if row.status in ("rejected", "done"):
            assert (effects > 0) == (row.status == "done"), f"{row.name} is {row.status}, and ran {effects} times"


def seen(key: str) -> Counter[str]:
    """What came about in a family of threads, so that a test can say that it has met it."""
    runs = {run.pk: run for run in Run.objects.filter(thread__in=threads_of(key))}
    found: Counter[str] = Counter()
    for run in runs.values():
        caller = runs.get(run.parent_run_id) if run.parent_run_id else None
        found["asked"] += caller is not None
        found["asked by an asked one"] += caller is not None and caller.parent_run_id is not None
        found["taken up again"] += run.attempt > 1
        found["an asked one that waits"] += caller is not None and run.status == "requires_action"
        found["an asked one that failed"] += caller is not None and run.status == "failed"
        found["handed over"] += "agents" in run.usage
        found["forked"] += run.forked_from_id is not None
    return found


class Dying:
    """The visits to the database of a run, until the process dies before one of them."""

    def __init__(self, after: int, visit: Any) -> None:
        self.left = after
        self.visit = visit

    async def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise errors.LeaseLostError
        return await self.visit(function, *args, **kwargs)
