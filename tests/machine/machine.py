"""The machine: what may be done with a thread, and what has to come of it."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from criogen_threads import errors, inputs
from criogen_threads.engine.dispatch.executing import execute
from criogen_threads.models import Thread as ThreadRow
from tests.machine.checks import check
from tests.machine.driving import Driver
from tests.machine.reference import WAYS, Plan, Thread
from tests.machine.rows import Rows
from tests.machine.world import APPROVED, KINDS, World

rounds = st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3), max_size=2)
ways = st.sampled_from(WAYS)
states = st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=1)
numbers = count(1)
LIVE = ("suspended", "due", "interrupted")


class ThreadMachine(RuleBasedStateMachine):
    """Everything goes through the public handle of one thread."""

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.world = World()
        self.chat = self.world.agent.thread(f"machine-{next(numbers)}")
        self.driver = Driver(self.chat, self.world)
        self.rows = Rows(self.chat.id)
        self.model = Thread()
        self.queue: list[tuple[UUID, Plan, dict[str, Any]]] = []
        self.answered: list[tuple[UUID, bool]] = []
        self.history: list[UUID] = []
        self.states: dict[UUID, dict[str, Any]] = {}  # of every checkpoint ever
        self.checked: Any = None  # the mark of the rows that were found to be right
        self.rewound_to: UUID | None = None
        self.nothing_is_there()

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.run_until_complete(self.driver.end())
            self.loop.close()

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    # Speaking ------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.queue and self.model.is_free)
    @rule(rounds=rounds, fails=st.none() | st.integers(0, 2), state=states, way=ways)
    def send(self, rounds: list[list[str]], fails: int | None, state: dict[str, Any], way: str) -> None:
        plan = Plan(next(numbers), rounds, fails)
        self.model.say(plan, state)
        self._goes_on(self.chat.send(plan.text, on_busy="reject", **state), way)

    send_too = send  # as often as that: the rest needs something to work on

    @precondition(lambda self: len(self.queue) < 2 and self.model.status not in ("suspended", "interrupted"))
    @rule(rounds=rounds, state=states)
    def submit(self, rounds: list[list[str]], state: dict[str, Any]) -> None:
        plan = Plan(next(numbers), rounds)
        run_id = UUID(self.run(self.chat.submit(plan.text, **state)))
        self.queue.append((run_id, plan, state))

    @precondition(lambda self: self.queue)
    @rule(way=ways)
    def execute(self, way: str) -> None:
        run_id, plan, state = self.queue[0]
        work = execute(run_id, stays=0.02)
        if not self.model.is_free:
            assert self.run(work) is (self.model.status != "due")
            return
        del self.queue[0]
        self.model.say(plan, state)
        self._goes_on(work, way, replies=False)

    @precondition(lambda self: self.queue)
    @rule()
    def cancel_what_is_in_line(self) -> None:
        run_id, _, _ = self.queue.pop()
        assert self.run(self.chat.cancel(run_id)) is True
        assert self.run(self.chat.cancel(run_id)) is False

    # Going on ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.status in ("failed", "forked", "interrupted", "due"))
    @rule(well=st.booleans(), way=ways)
    def retry(self, well: bool, way: str) -> None:
        self.world.well = well
        self._goes_on(self.chat.retry(), way)
        self.world.well = False

    @precondition(lambda self: self.model.status in LIVE)
    @rule()
    def cancel(self) -> None:
        assert self.run(self.chat.cancel()) is True
        self.model.fail()
        self.driver.is_taken()

    @precondition(lambda self: self.driver.stale())
    @rule()
    def a_paused_process_wakes_up_too_late(self) -> None:
        before = self._mark()
        self.run(self.driver.wake())
        assert self._mark() == before

    # Answering -----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.awaiting)
    @rule(data=st.data(), approve=st.booleans(), way=ways)
    def answer_all(self, data: st.DataObject, approve: bool, way: str) -> None:
        work = self.chat.approve() if approve else self.chat.reject("no")
        self._answers(dict.fromkeys(self.model.awaiting, approve), work, way)

    @precondition(lambda self: self.model.awaiting)
    @rule(data=st.data(), way=ways)
    def decide(self, data: st.DataObject, way: str) -> None:
        decisions = self._some_decisions(data)
        work = self.chat.decide({self._row(index): answer for index, answer in decisions.items()})
        self._answers({index: _approves(answer) for index, answer in decisions.items()}, work, way)

    @precondition(lambda self: self.model.awaiting)
    @rule(data=st.data())
    def decide_and_die(self, data: st.DataObject) -> None:
        """The answers are kept, and the process dies before it does anything with them."""
        decisions = self._some_decisions(data)
        answers = {self._row(index): answer for index, answer in decisions.items()}
        self.run(self.driver.record({pk: inputs.decision(answer) for pk, answer in answers.items()}))
        self._note({index: _approves(answer) for index, answer in decisions.items()})
        if self.model.status == "suspended" and not self.model.awaiting:
            self.model.status = "due"

    def _some_decisions(self, data: st.DataObject) -> dict[int, Any]:
        some = data.draw(st.lists(st.sampled_from(self.model.awaiting), min_size=1, unique=True))
        return {index: data.draw(self._decisions(index)) for index in some}

    def _decisions(self, index: int) -> st.SearchStrategy[Any]:
        plain: st.SearchStrategy[Any] = st.sampled_from([True, False, {"approve": False, "reason": "too much"}])
        if self.model.kind(index) not in APPROVED:
            return plain
        return plain | st.integers(2, 99).map(lambda amount: {"approve": True, "arguments": {"amount": amount}})

    def _answers(self, answers: dict[int, bool], work: Any, way: str) -> None:
        interrupted = self.model.status == "interrupted"
        self._note(answers)
        if interrupted:
            self._is_refused(work, "thread_interrupted")  # the answers are kept all the same
        elif self.model.awaiting:
            reply = self.run(work)
            assert (reply.status, len(reply.pending)) == ("suspended", len(self.model.awaiting))
        else:
            self._goes_on(work, way)

    def _note(self, answers: dict[int, bool]) -> None:
        for index, approve in answers.items():
            self.answered.append((self._row(index), approve))
            self.model.open[index] = "approved" if approve else "rejected"

    def _row(self, index: int) -> UUID:
        """The newest row of a call in the current run."""
        rows = self.rows
        assert rows.thread is not None
        own = [call for call in rows.calls.values() if call.run_id == rows.thread.current_run_id]
        answer = max(rows.messages[call.message_id].position for call in own)
        return [c.pk for c in own if c.index == index and rows.messages[c.message_id].position == answer][-1]

    # Going back ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from(list(self.rows.checkpoints)))
        head = self.run(self.chat.rewind(target))
        assert head["source"] == "fork"
        self.rewound_to = target
        self.model.rewind(self.rows.checkpoints[target].status, self.rows.said(target), self.states[target])
        self.answered = []
        self.driver.is_taken()

    @precondition(lambda self: len(self.states) > 30)
    @rule()
    def delete(self) -> None:
        assert self.run(self.chat.delete()) is True
        old = next(iter(self.states))
        self.model = Thread()
        self.queue, self.answered, self.history = [], [], []
        self.states = {}
        self.driver.is_taken()
        self._is_refused(self.chat.rewind(old), "checkpoint_not_found")
        self.nothing_is_there()

    # What is refused -----------------------------------------------------------------------------------------

    def nothing_is_there(self) -> None:
        for nothing in (self.chat.retry(), self.chat.approve(), self.chat.reject()):
            self._is_refused(nothing, "resume_invalid")
        assert self.run(self.chat.cancel()) is False
        assert self.run(self.chat.delete()) is False

    @precondition(lambda self: self.model.status != "new")
    @rule(data=st.data())
    def what_does_not_fit(self, data: st.DataObject) -> None:
        """Nothing is written: not even the answer that would have fitted, beside one that does not."""
        chat, status = self.chat, self.model.status
        refusals = [(lambda: chat.rewind(uuid4()), "checkpoint_not_found"), *self._answers_that_do_not_fit(data)]
        if status in ("suspended", "interrupted"):
            refusals.append((lambda: chat.send("no"), f"thread_{status}"))
            refusals.append((lambda: chat.submit("no"), f"thread_{status}"))
        elif status == "due" or self.queue:
            refusals.append((lambda: chat.send("no", on_busy="reject"), "thread_busy"))
        if status in ("suspended", "completed"):
            refusals.append((chat.retry, {"suspended": "thread_suspended"}.get(status, "resume_invalid")))
        work, code = data.draw(st.sampled_from(refusals))
        self._is_refused(work(), code)
        if status not in LIVE:
            assert self.run(chat.cancel()) is False

    def _answers_that_do_not_fit(self, data: st.DataObject) -> list[Any]:
        unfit: list[dict[UUID, Any]] = [{uuid4(): True}]
        if self.model.awaiting:
            unfit.append({self._row(self.model.awaiting[0]): True, uuid4(): True})
        if self.answered:
            pk, approved = data.draw(st.sampled_from(self.answered))
            unfit.append({pk: not approved})
        return [(lambda answers=answers: self.chat.decide(answers), "resume_invalid") for answers in unfit]

    # What comes of it ----------------------------------------------------------------------------------------

    def _is_refused(self, work: Any, code: str) -> None:
        before = self._mark()
        with pytest.raises(errors.CriogenError) as caught:
            self.run(work)
        assert caught.value.code == code
        if code != "thread_interrupted":  # of an answer, which is kept
            assert self._mark() == before

    def _mark(self) -> list[Any]:
        """Any write of a row of the thread moves this."""
        return list(ThreadRow.objects.filter(key=self.chat.id).values_list("version", "event_seq", "pending", "fence"))

    def _goes_on(self, work: Any, way: str, *, replies: bool = True) -> None:
        self.driver.is_taken()
        self.model.advance(self.world.well, way)
        outcome = self.run(self.driver.drive(work, way))
        status = self.model.status
        if not replies:
            assert outcome is True or status == "interrupted"
        elif status == "completed":
            assert (outcome.status, outcome.text) == ("completed", f"done {self.model.plan.id}")
        elif status == "suspended":
            assert (outcome.status, len(outcome.pending)) == ("suspended", len(self.model.awaiting))
        else:
            wanted = {"failed": {"model_failed", "cancelled"}, "interrupted": {"shutting_down", "zombie"}}
            assert outcome in wanted[status], f"{outcome!r} of a run that is {status}"

    @invariant()
    def the_rows_are_right(self) -> None:
        """Read anew after whatever may have written."""
        if not hasattr(self, "model") or (mark := self._mark()) == self.checked:
            return
        self.rows.read()
        check(self.rows, self.world)
        self._check_model(self.rows)
        self._check_history(self.rows)
        self.checked = mark

    def _check_model(self, rows: Rows) -> None:
        model, thread = self.model, rows.thread
        queued = [run.pk for run in rows.runs.values() if run.status == "queued"]
        assert queued == [pk for pk, _, _ in self.queue]
        if thread is None:
            assert model.status == "new"
            return
        wanted = {
            "new": "idle", "completed": "idle", "forked": "idle", "due": "suspended", "interrupted": "running",
        }  # fmt: skip
        assert thread.status == wanted.get(model.status, model.status)
        assert thread.state == model.state
        assert thread.pending == len(model.awaiting)
        if thread.head_id:
            said = rows.said(thread.head_id)
            again = Thread()
            again.rewind("", said, {})
            assert (again.plan, again.round, set(again.open)) == (model.plan, model.round, set(model.open))

    def _check_history(self, rows: Rows) -> None:
        """Newer checkpoints on top of the older ones, or a fork on top of its target."""
        history = [UUID(each["id"]) for each in self.run(self.chat.history(10_000))]
        below = rows.chain(self.rewound_to) if self.rewound_to else self.history
        assert history[len(history) - len(below) :] == below
        assert not self.rewound_to or len(history) == len(below) + 1
        new = rows.checkpoints.keys() - self.states.keys()
        assert set(history[: len(history) - len(below)]) == new
        self.history, self.rewound_to = history, None
        self.states.update((pk, dict(self.model.state)) for pk in new)


def _approves(answer: Any) -> bool:
    return answer if isinstance(answer, bool) else answer["approve"]
