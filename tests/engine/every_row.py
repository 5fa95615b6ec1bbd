"""A row of every model with every column set."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model

from criogen_threads.ids import new_id
from criogen_threads.models import Checkpoint, Event, Message, Run, Thread, ToolCall, Visitor, VisitorAddress, Worker

if TYPE_CHECKING:
    from django.db.models import Model

WHEN = datetime(2026, 2, 3, 4, 5, 6, 789_012, tzinfo=UTC)
ODD: dict[str, Any] = {"z": 1, "a": [None, True, 0.1, 10**30, "\0 ünï \U0001f600"], "nested": {"b": {}, "a": []}}


def every_row() -> list[Model]:
    user = get_user_model().objects.create_user("ann")
    thread, run, message, checkpoint, call = (new_id() for _ in range(5))
    return [
        Thread(
            id=thread,
            key="one",
            agent="helper",
            parent_id=new_id(),
            owner_id=user.pk,
            visitor="v" * 64,
            title="T\0",
            metadata=ODD,
            status="running",
            state=ODD,
            ephemeral=True,
            pending=3,
            tokens=2**40,
            created_at=WHEN,
            last_message_at=WHEN,
            current_run_id=run,
            head_id=checkpoint,
            version=2**33,
            event_seq=7,
            holder=new_id(),
            fence=9,
            cancel_mark=run,
        ),
        Run(
            id=run,
            thread_id=thread,
            number=5,
            status="failed",
            agent="helper",
            actor_id=user.pk,
            visitor="v" * 64,
            address="a" * 64,
            input=[ODD],
            state=ODD,
            locale="de",
            attempt=2,
            client_id="c",
            error_code="x",
            error_message="\0 no",
            usage=ODD,
            forked_from_id=new_id(),
            parent_run_id=new_id(),
            created_at=WHEN,
            started_at=WHEN,
            completed_at=WHEN,
            urgent=True,
            waiter=new_id(),
            wait_until=WHEN,
            first_step=3,
            first_tokens=2**35,
        ),
        Message(
            id=message,
            thread_id=thread,
            run_id=run,
            role="user",
            content=[ODD],
            parent_id=new_id(),
            position=4,
            agent="helper",
            metadata=ODD,
            created_at=WHEN,
        ),
        Checkpoint(
            id=checkpoint,
            thread_id=thread,
            run_id=run,
            version=2**33,
            status="failed",
            source="failure",
            step=2,
            parent_id=new_id(),
            message_id=message,
            state=ODD,
            state_at_id=new_id(),
            agent="helper",
            delegated=ODD,
            cut=True,
            created_at=WHEN,
        ),
        ToolCall(
            id=call,
            thread_id=thread,
            run_id=run,
            message_id=message,
            step=1,
            index=2,
            try_number=3,
            call_id="c1",
            name="refund",
            arguments=ODD,
            status="rejected",
            child_run_id=new_id(),
            child_checkpoint_id=new_id(),
            result_id=new_id(),
            created_at=WHEN,
            started_at=WHEN,
            finished_at=WHEN,
            approver="staff",
            expires_at=WHEN,
            arguments_digest="d" * 64,
            decided_by_id=user.pk,
            decided_at=WHEN,
            approved=False,
            reason="no\0",
            edited_arguments=ODD,
        ),
        Event(
            id=new_id(),
            thread_id=thread,
            seq=1,
            type="x",
            run_id=run,
            agent="helper",
            parent_id=new_id(),
            details=ODD,
            message_id=message,
            tool_call_id=call,
            created_at=WHEN,
        ),
        Visitor(digest="v" * 64, user_id=user.pk, created_at=WHEN),
        VisitorAddress(digest="a" * 64, begun=[1, 2**41], last_at=WHEN),
        Worker(id=new_id(), host="h", pid=1, started_at=WHEN, expires_at=WHEN),
    ]
