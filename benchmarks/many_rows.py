"""100,000 threads and everything in them, written by the server itself: each table in one statement.

Every thread is a small conversation with the desk of ``project/``: three turns, ten messages with a checkpoint each,
two tool calls, of which the second is a refund that needed an approval. A few wait for it, failed, or were left by a
dead process. One thread more is long: as many turns as ``LONG``, each a message of the user and an answer.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

LONG = 5_000
"""Turns of the long thread."""

OWNERS_PER_THREAD = 2
STATES = {"SUSPENDED": "n %% 100 = 7", "FAILED": "n %% 100 = 13", "INTERRUPTED": "n %% 1000 = 99"}
"""Which threads they are; the words stand in the statements."""


def uid(kind: int, number: str) -> str:
    """The id of a row as SQL: UUIDs that grow with the number, as version 7 does."""
    return f"('01a0{kind:04x}-0000-7000-8000-' || lpad(to_hex({number}), 12, '0'))::uuid"


def thread(n: str = "n") -> str:
    return uid(1, n)


def of_thread(kind: int, n: str, position: str) -> str:
    """The id of a row that a thread has several of; the long thread has more than a hundred thousand numbers."""
    return uid(kind, f"({n}) * 32 + ({position})")


ARGUMENTS = """'{"order":"A-' || (1000 + n %% 9000) || '","amount":"' || (1 + n %% 240) || '.00"}'"""
RUN_OF_MESSAGE = of_thread(2, "n", "(CASE WHEN m < 5 THEN 1 WHEN m < 7 THEN 2 ELSE 3 END)")
AGO = "now() - (%(threads)s - n) * interval '1 minute'"

STATEMENTS = [
    """
    INSERT INTO auth_user (username, password, first_name, last_name, email, is_staff, is_superuser, is_active,
                           date_joined)
    SELECT 'customer-' || n, '', '', '', '', false, false, true, now() FROM generate_series(1, %(owners)s) n
    """,
    f"""
    INSERT INTO criogen_threads_thread (id, key, agent, owner_id, title, metadata, status, state, ephemeral, pending,
        tokens, created_at, last_message_at, current_run_id, head_id, version, event_seq, fence)
    SELECT {thread()}, 'user-' || n, 'desk', (SELECT min(id) FROM auth_user WHERE username LIKE 'customer-%%')
               + n %% %(owners)s,
        CASE WHEN n %% 3 = 0 THEN '"Refund of order A-' || (1000 + n %% 9000) || '"' ELSE '""' END, '{{}}',
        CASE WHEN SUSPENDED THEN 'suspended' WHEN FAILED THEN 'failed' WHEN INTERRUPTED THEN 'running'
             ELSE 'idle' END,
        '{{}}', false, CASE WHEN SUSPENDED THEN 1 ELSE 0 END, 900 + n %% 5000, {AGO}, {AGO},
        {of_thread(2, "n", "3")}, {of_thread(3, "n", "10")}, 10, 12, 3
    FROM generate_series(1, %(threads)s) n
    """,
    f"""
    INSERT INTO criogen_threads_run (id, thread_id, number, status, agent, actor_id, locale, attempt, error_code,
        error_message, usage, urgent, first_step, first_tokens, created_at, started_at, completed_at)
    SELECT {of_thread(2, "n", "r")}, {thread()}, r,
        CASE WHEN r < 3 THEN 'completed' WHEN SUSPENDED THEN 'requires_action' WHEN FAILED THEN 'failed'
             WHEN INTERRUPTED THEN 'in_progress' ELSE 'completed' END,
        'desk', (SELECT min(id) FROM auth_user WHERE username LIKE 'customer-%%') + n %% %(owners)s, '', 1,
        CASE WHEN r = 3 AND FAILED THEN 'model_failed' ELSE '' END,
        CASE WHEN r = 3 AND FAILED THEN '"the provider is down"' ELSE '""' END,
        '{{"input_tokens":300,"output_tokens":40}}', false, 0, 0, {AGO}, {AGO}, {AGO} + interval '4 seconds'
    FROM generate_series(1, %(threads)s) n, generate_series(1, 3) r
    """,
    f"""
    INSERT INTO criogen_threads_message (id, thread_id, run_id, role, content, parent_id, position, agent, created_at)
    SELECT {of_thread(4, "n", "m")}, {thread()}, {RUN_OF_MESSAGE},
        CASE WHEN m IN (1, 5, 7) THEN 'user' WHEN m IN (3, 9) THEN 'tool' ELSE 'assistant' END,
        CASE WHEN m IN (1, 5, 7) THEN '[{{"text":"I would like to know about order A-' || (1000 + n %% 9000)
                 || ', which I ordered a while ago and which has not come yet."}}]'
             WHEN m IN (2, 8) THEN '[{{"tool_call":{{"id":"call-' || m || '","name":"'
                 || CASE m WHEN 2 THEN 'look_up_order' ELSE 'refund' END || '","arguments":' || {ARGUMENTS} || '}}}}]'
             WHEN m IN (3, 9) THEN '[{{"tool_result":{{"id":"call-' || (m - 1) || '","name":"'
                 || CASE m WHEN 3 THEN 'look_up_order' ELSE 'refund' END
                 || '","content":"The order was shipped on Monday.","is_error":false}}}}]'
             ELSE '[{{"text":"Your order is on its way, and **should be there** within two days. Is there anything'
                 || ' else that I can do for you?"}}]' END,
        CASE WHEN m > 1 THEN {of_thread(4, "n", "m - 1")} END, m, 'desk', {AGO}
    FROM generate_series(1, %(threads)s) n, generate_series(1, 10) m
    """,
    f"""
    INSERT INTO criogen_threads_checkpoint (id, thread_id, run_id, version, status, source, step, agent, parent_id,
        message_id, created_at)
    SELECT {of_thread(3, "n", "m")}, {thread()}, {RUN_OF_MESSAGE}, m,
        CASE WHEN m IN (4, 6, 10) THEN 'completed' ELSE 'in_progress' END,
        CASE WHEN m IN (1, 5, 7) THEN 'input' ELSE 'step' END, 1, '',
        CASE WHEN m > 1 THEN {of_thread(3, "n", "m - 1")} END, {of_thread(4, "n", "m")}, {AGO}
    FROM generate_series(1, %(threads)s) n, generate_series(1, 10) m
    """,
    f"""
    INSERT INTO criogen_threads_toolcall (id, thread_id, run_id, message_id, step, index, try_number, call_id, name,
        arguments, status, result_id, approver, arguments_digest, reason, approved, decided_by_id, decided_at,
        created_at, started_at, finished_at)
    SELECT {of_thread(5, "n", "m")}, {thread()}, {of_thread(2, "n", "(CASE m WHEN 2 THEN 1 ELSE 3 END)")},
        {of_thread(4, "n", "m")}, 1, 0, 1, 'call-' || m, CASE m WHEN 2 THEN 'look_up_order' ELSE 'refund' END,
        {ARGUMENTS}, CASE WHEN m = 8 AND SUSPENDED THEN 'awaiting_approval' WHEN m = 8 AND n %% 9 = 0 THEN 'rejected'
            ELSE 'done' END,
        CASE WHEN m = 8 AND SUSPENDED THEN NULL ELSE {of_thread(4, "n", "m + 1")} END,
        CASE m WHEN 2 THEN '' ELSE 'staff' END, 'digest', '""',
        CASE WHEN m = 2 OR SUSPENDED THEN NULL ELSE n %% 9 <> 0 END,
        CASE WHEN m = 2 OR SUSPENDED THEN NULL ELSE %(staff)s END,
        CASE WHEN m = 2 OR SUSPENDED THEN NULL ELSE {AGO} END, {AGO}, {AGO}, {AGO}
    FROM generate_series(1, %(threads)s) n, (VALUES (2), (8)) AS calls (m)
    """,
    f"""
    INSERT INTO criogen_threads_event (id, thread_id, seq, type, run_id, agent, parent_id, message_id, tool_call_id,
        created_at)
    SELECT {of_thread(6, "n", "e")}, {thread()}, e,
        CASE e %% 6 WHEN 1 THEN 'run_start' WHEN 2 THEN 'agent_start' WHEN 3 THEN 'tool_start'
             WHEN 4 THEN 'tool_complete' WHEN 5 THEN 'agent_complete' ELSE 'run_complete' END,
        {of_thread(2, "n", "1 + e / 7 * 2")}, 'desk',
        CASE WHEN e %% 6 > 2 OR e %% 6 = 0 THEN {of_thread(6, "n", "(e - 1) / 6 * 6 + 2")} END,
        CASE e %% 6 WHEN 4 THEN {of_thread(4, "n", "3 + e / 7 * 6")}
            WHEN 5 THEN {of_thread(4, "n", "4 + e / 7 * 6")} END,
        CASE WHEN e %% 6 IN (3, 4) THEN {of_thread(5, "n", "2 + e / 7 * 6")} END, {AGO}
    FROM generate_series(1, %(threads)s) n, generate_series(1, 12) e
    """,
    # The long thread: number 0, with numbers of its own for its rows
    f"""
    INSERT INTO criogen_threads_thread (id, key, agent, title, metadata, status, state, ephemeral, pending, tokens,
        created_at, last_message_at, current_run_id, head_id, version, event_seq, fence)
    VALUES ({thread("0")}, 'long', 'desk', '""', '{{}}', 'idle', '{{}}', false, 0, 900000, now(), now(),
        {uid(12, "%(long)s")}, {uid(13, "2 * %(long)s")}, 2 * %(long)s, 2 * %(long)s, 3)
    """,
    f"""
    INSERT INTO criogen_threads_run (id, thread_id, number, status, agent, locale, attempt, error_code, error_message,
        usage, urgent, first_step, first_tokens, created_at, started_at, completed_at)
    SELECT {uid(12, "r")}, {thread("0")}, r, 'completed', 'desk', '', 1, '', '""', '{{"input_tokens":300}}', false, 0,
        0, now(), now(), now() + interval '3 seconds' FROM generate_series(1, %(long)s) r
    """,
    f"""
    INSERT INTO criogen_threads_message (id, thread_id, run_id, role, content, parent_id, position, agent, created_at)
    SELECT {uid(14, "m")}, {thread("0")}, {uid(12, "(m + 1) / 2")}, CASE m %% 2 WHEN 1 THEN 'user' ELSE 'assistant' END,
        '[{{"text":"Message number ' || m || repeat(', and what else there is to say', 10) || '."}}]',
        CASE WHEN m > 1 THEN {uid(14, "m - 1")} END, m, 'desk', now() FROM generate_series(1, 2 * %(long)s) m
    """,
    f"""
    INSERT INTO criogen_threads_checkpoint (id, thread_id, run_id, version, status, source, step, agent, parent_id,
        message_id, created_at)
    SELECT {uid(13, "m")}, {thread("0")}, {uid(12, "(m + 1) / 2")}, m,
        CASE m %% 2 WHEN 1 THEN 'in_progress' ELSE 'completed' END,
        CASE m %% 2 WHEN 1 THEN 'input' ELSE 'step' END, 1, '',
        CASE WHEN m > 1 THEN {uid(13, "m - 1")} END, {uid(14, "m")}, now() FROM generate_series(1, 2 * %(long)s) m
    """,
    f"""
    INSERT INTO criogen_threads_event (id, thread_id, seq, type, run_id, agent, message_id, created_at)
    SELECT {uid(16, "m")}, {thread("0")}, m, 'message', {uid(12, "(m + 1) / 2")}, 'desk', {uid(14, "m")}, now()
    FROM generate_series(1, 2 * %(long)s) m
    """,
]


def write(connection: BaseDatabaseWrapper, threads: int, staff: int) -> dict[str, int]:
    """Write all of it, and have the server count what it has.

    Args:
        threads: How many; ten checkpoints each.
        staff: Who answered the approvals: the primary key of a user.

    Returns:
        The rows of each table.
    """
    numbers = {"threads": threads, "owners": max(1, threads // OWNERS_PER_THREAD), "staff": staff, "long": LONG}
    with connection.cursor() as cursor:
        for statement in STATEMENTS:
            cursor.execute(reduce(lambda sql, state: sql.replace(*state), STATES.items(), statement), numbers)
        cursor.execute("VACUUM ANALYZE")
        cursor.execute(
            "SELECT relname, reltuples::bigint FROM pg_class WHERE relkind = 'r' AND relname LIKE 'criogen%'"
            " AND reltuples > 0 ORDER BY relname"
        )
        return dict(cursor.fetchall())
