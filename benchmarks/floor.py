"""The floor: the same rows in the same commits, in SQL written by hand for plain psycopg.

It checks nothing and decides nothing: the least that such rows can cost. Once each statement for itself, once
with what belongs to one commit sent in one pipeline.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.contestant import Taken
from criogen_threads.ids import new_id

if TYPE_CHECKING:
    from uuid import UUID

    from benchmarks.workload import Spoken

AGENT = "bench"

THREAD = (
    "INSERT INTO criogen_threads_thread (id, key, agent, title, metadata, status, state, ephemeral, pending,"
    " tokens, version, event_seq, fence) VALUES (%s, %s, %s, '\"\"', '{}', 'idle', '{}', false, 0, 0, 0, 0, 0)"
)
LOCK = (
    "SELECT version, event_seq, fence, tokens, head_id, now() FROM criogen_threads_thread WHERE id = %s"
    " FOR NO KEY UPDATE"
)
RUN = (
    "INSERT INTO criogen_threads_run (id, thread_id, number, status, agent, input, locale, attempt, error_code,"
    " error_message, usage, urgent, first_step, first_tokens, created_at, started_at)"
    " VALUES (%s, %s, %s, 'in_progress', %s, %s, '', 1, '', '\"\"', '{}', false, 0, 0, %s, %s)"
)
MESSAGE = (
    "INSERT INTO criogen_threads_message (id, thread_id, run_id, role, content, parent_id, position, agent,"
    " created_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
CHECKPOINT = (
    "INSERT INTO criogen_threads_checkpoint (id, thread_id, run_id, version, status, source, step, parent_id,"
    " message_id, agent, created_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
CALL = (
    "INSERT INTO criogen_threads_toolcall (id, thread_id, run_id, message_id, step, index, try_number, call_id,"
    " name, arguments, status, approver, arguments_digest, reason, created_at, started_at)"
    " VALUES (%s, %s, %s, %s, 1, 0, 1, %s, 'lookup', %s, 'running', '', %s, '\"\"', %s, %s)"
)
EVENT = (
    "INSERT INTO criogen_threads_event (id, thread_id, seq, type, run_id, agent, parent_id, message_id,"
    " tool_call_id, created_at) VALUES "
)
EVENT_ROW = "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
CALL_DONE = (
    "UPDATE criogen_threads_toolcall SET status = 'done', result_id = %s, finished_at = %s, started_at = %s"
    " WHERE id = %s"
)
USAGE = "UPDATE criogen_threads_run SET usage = %s WHERE id = %s"
RUN_DONE = "UPDATE criogen_threads_run SET usage = %s, status = 'completed', completed_at = %s WHERE id = %s"
BEGUN = (
    "UPDATE criogen_threads_thread SET status = 'running', holder = %s, fence = %s, cancel_mark = NULL,"
    " current_run_id = %s, last_message_at = %s, head_id = %s, version = %s, event_seq = %s WHERE id = %s"
)
MOVED = (
    "UPDATE criogen_threads_thread SET tokens = %s, last_message_at = %s, head_id = %s, version = %s,"
    " event_seq = %s WHERE id = %s"
)
FREED = (
    "UPDATE criogen_threads_thread SET status = 'idle', holder = NULL, cancel_mark = NULL, tokens = %s,"
    " last_message_at = %s, head_id = %s, version = %s, event_seq = %s WHERE id = %s"
)
CONVERSATION = (
    "WITH RECURSIVE branch(pk, parent, depth) AS (SELECT id, parent_id, 1 FROM criogen_threads_message"
    " WHERE id = %s UNION ALL SELECT parent, (SELECT parent_id FROM criogen_threads_message WHERE id = parent),"
    " depth + 1 FROM branch WHERE parent IS NOT NULL) SELECT row.id, row.role, row.content, row.run_id,"
    " row.position, row.created_at FROM branch JOIN criogen_threads_message row ON row.id = branch.pk"
    " ORDER BY depth DESC"
)
HISTORY = (
    "WITH RECURSIVE branch AS (SELECT *, 1 AS depth FROM criogen_threads_checkpoint WHERE id = %s UNION ALL"
    " SELECT row.*, depth + 1 FROM branch JOIN criogen_threads_checkpoint row ON row.id = branch.parent_id"
    " WHERE depth < 20) SELECT * FROM branch ORDER BY depth"
)


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(slots=True)
class Page:
    """What one commit of a thread goes on from."""

    connection: psycopg.Connection[Any]
    thread: UUID
    version: int
    seq: int
    fence: int
    tokens: int
    head: UUID | None
    now: Any
    events: list[Any] = field(default_factory=list)

    def event(
        self, kind: str, run: UUID, parent: UUID | None, message: UUID | None = None, call: UUID | None = None,
        event: UUID | None = None,
    ) -> None:  # fmt: skip
        self.seq += 1
        self.events += [event or new_id(), self.thread, self.seq, kind, run, AGENT, parent, message, call, self.now]

    def write_events(self) -> None:
        count = len(self.events) // 10
        self.connection.execute(EVENT + ", ".join([EVENT_ROW] * count), self.events)


class Floor:
    """Plain psycopg on one connection that is never given back."""

    def __init__(self, name: str, address: str, prepare_threshold: int | None, *, piped: bool) -> None:
        self.name = name
        self.piped = piped
        self.connection: psycopg.Connection[Any] = psycopg.connect(address, autocommit=True)
        self.connection.prepare_threshold = prepare_threshold
        self.worker = new_id()

    async def begin(self, key: str) -> None:
        self.thread = new_id()
        self.tail: UUID | None = None
        self.position = self.number = 0
        self.connection.execute(THREAD, [self.thread, key, AGENT])

    async def turn(self, spoken: Spoken) -> Taken:
        started, worked = time.perf_counter(), time.thread_time()
        self.number += 1
        run, usage = new_id(), {"input_tokens": 1000, "output_tokens": 100, "requests": 1}
        self._commit(self._begin, run, spoken)
        call, start = new_id(), new_id()
        self._commit(self._ask, run, spoken, call, start, usage)
        self._commit(self._result, run, spoken, call, start)
        self._commit(self._answer, run, spoken, {**usage, "requests": 2})
        taken = time.perf_counter() - started
        return Taken(taken, time.thread_time() - worked, taken, commits=4)

    def _commit(self, write: Any, *args: Any) -> None:
        connection = self.connection
        with connection.pipeline() if self.piped else nullcontext(), connection.transaction():
            row = connection.execute(LOCK, [self.thread]).fetchone()
            write(Page(connection, self.thread, *row), *args)  # type: ignore[misc]

    def _begin(self, page: Page, run: UUID, spoken: Spoken) -> None:
        content = dumps([{"text": spoken.question}])
        page.connection.execute(RUN, [run, page.thread, self.number, AGENT, content, page.now, page.now])
        message = self._message(page, run, "user", content)
        head = self._checkpoint(page, run, "input", "in_progress", 0)
        page.event("run_start", run, None)
        page.event("message", run, run, message)
        page.event("agent_start", run, None, message, event=run)
        page.write_events()
        page.connection.execute(
            BEGUN, [self.worker, page.fence + 1, run, page.now, head, page.version + 1, page.seq, page.thread]
        )

    def _ask(self, page: Page, run: UUID, spoken: Spoken, call: UUID, start: UUID, usage: Any) -> None:
        asked = {"id": f"call-{self.number}", "name": "lookup", "arguments": spoken.arguments}
        message = self._message(page, run, "assistant", dumps([{"tool_call": asked}]))
        arguments = dumps(spoken.arguments)
        digest = hashlib.sha256(arguments.encode()).hexdigest()
        page.connection.execute(
            CALL, [call, page.thread, run, message, asked["id"], arguments, digest, page.now, page.now]
        )
        head = self._checkpoint(page, run, "step", "in_progress", 1)
        page.event("message", run, run, message)
        page.event("tool_start", run, run, call=call, event=start)
        page.write_events()
        page.connection.execute(USAGE, [dumps(usage), run])
        self._move(page, MOVED, head)

    def _result(self, page: Page, run: UUID, spoken: Spoken, call: UUID, start: UUID) -> None:
        result = {
            "id": f"call-{self.number}", "name": "lookup", "content": spoken.result, "is_error": False
        }  # fmt: skip
        message = self._message(page, run, "tool", dumps([{"tool_result": result}]))
        head = self._checkpoint(page, run, "step", "in_progress", 1)
        page.event("tool_complete", run, start, message, call)
        page.write_events()
        page.connection.execute(CALL_DONE, [message, page.now, page.now, call])
        self._move(page, MOVED, head)

    def _answer(self, page: Page, run: UUID, spoken: Spoken, usage: Any) -> None:
        message = self._message(page, run, "assistant", dumps([{"text": spoken.answer}]))
        head = self._checkpoint(page, run, "step", "completed", 2)
        page.event("message", run, run, message)
        page.event("agent_complete", run, run, message)
        page.event("run_complete", run, run)
        page.write_events()
        page.connection.execute(RUN_DONE, [dumps(usage), page.now, run])
        self._move(page, FREED, head)

    def _message(self, page: Page, run: UUID, role: str, content: str) -> UUID:
        self.position += 1
        self.tail, parent = new_id(), self.tail
        page.connection.execute(
            MESSAGE, [self.tail, page.thread, run, role, content, parent, self.position, AGENT, page.now]
        )
        return self.tail

    def _checkpoint(self, page: Page, run: UUID, source: str, status: str, step: int) -> UUID:
        head, version = new_id(), page.version + 1
        page.connection.execute(
            CHECKPOINT,
            [head, page.thread, run, version, status, source, step, page.head, self.tail, AGENT, page.now],
        )
        return head

    def _move(self, page: Page, statement: str, head: UUID) -> None:
        page.connection.execute(
            statement, [page.tokens + 1100, page.now, head, page.version + 1, page.seq, page.thread]
        )

    async def read(self) -> int:
        rows = self.connection.execute(CONVERSATION, [self.tail]).fetchall()
        return len([{"id": str(row[0]), "role": row[1], "content": json.loads(row[2])} for row in rows])

    async def history(self) -> int:
        [head] = self.connection.execute("SELECT head_id FROM criogen_threads_thread WHERE id = %s", [self.thread])
        return len(self.connection.execute(HISTORY, [head[0]]).fetchall())

    async def close(self) -> None:
        self.connection.close()
