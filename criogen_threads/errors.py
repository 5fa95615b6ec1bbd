"""Every error that the package raises: one class a code.

A caller tells errors apart by ``error.code``, which also stands on a failed run (``run.error_code``) and in
every API answer. The text is for people; the code is the contract.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CriogenError(Exception):
    """Something that the package refuses or could not do.

    Args:
        message: What happened, for a person. Without one, the first line of the class's docstring.
        details: Facts that a program may want (JSON values), such as ``decided_by`` of a late answer.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str = "", **details: Any) -> None:
        super().__init__(message or self.default_message())
        self.details = details

    @classmethod
    def default_message(cls) -> str:
        return (cls.__doc__ or "").strip().partition("\n")[0]


# The state of the thread -------------------------------------------------------------------------------------


class ThreadBusyError(CriogenError):
    """Another run holds the thread."""

    code = "thread_busy"


class ThreadSuspendedError(CriogenError):
    """An approval waits: answer it with approve(), reject() or decide()."""

    code = "thread_suspended"


class ThreadInterruptedError(CriogenError):
    """The last run never finished, its process died: continue it with retry()."""

    code = "thread_interrupted"


class ResumeInvalidError(CriogenError):
    """There is nothing to retry, or the decision does not fit."""

    code = "resume_invalid"


class CheckpointNotFoundError(CriogenError):
    """The thread has no such checkpoint."""

    code = "checkpoint_not_found"


class ThreadNotFoundError(CriogenError):
    """There is no such thread."""

    code = "thread_not_found"


class RunNotFoundError(CriogenError):
    """There is no such run."""

    code = "run_not_found"


class AgentNotFoundError(CriogenError):
    """No agent is registered under this name."""

    code = "agent_not_found"


class PermissionDeniedError(CriogenError):
    """This actor may not do that."""

    code = "permission_denied"


# Input that is refused before anything is written ---------------------------------------------------------------


class InvalidThreadIdError(CriogenError):
    """A thread id has 1 to 200 characters, none of them a slash, white space or control; not '.' or '..'."""

    code = "invalid_thread_id"


class InvalidMessageError(CriogenError):
    """The message cannot be stored."""

    code = "invalid_message"


class MessageTooLargeError(CriogenError):
    """The message is larger than MAX_MESSAGE_BYTES allows."""

    code = "message_too_large"


class InvalidStateError(CriogenError):
    """The state is not JSON."""

    code = "invalid_state"


class InvalidArgumentsError(CriogenError):
    """The edited arguments do not fit the tool."""

    code = "invalid_arguments"


class InvalidEventError(CriogenError):
    """The event cannot be stored."""

    code = "invalid_event"


class InvalidOptionError(CriogenError):
    """An option has a value that it cannot have."""

    code = "invalid_option"


class ClientIdConflictError(CriogenError):
    """This client_id was sent before with another text."""

    code = "client_id_conflict"


class InTransactionError(CriogenError):
    """A thread cannot be used inside the caller's own open transaction: it would wait for it for ever."""

    code = "in_transaction"


class SyncInAsyncError(CriogenError):
    """A _sync call would block the event loop that it needs: await the call without _sync."""

    code = "sync_in_async"


class TooManyRunsError(CriogenError):
    """This user has as many live and waiting runs as MAX_RUNS_PER_USER allows."""

    code = "too_many_runs"


class TicketInvalidError(CriogenError):
    """The ticket is forged, too old, or another user's."""

    code = "ticket_invalid"


class AsgiRequiredError(CriogenError):
    """A stream needs an ASGI server; over WSGI, poll the JSON pages of this address."""

    code = "asgi_required"


# How a run ends ------------------------------------------------------------------------------------------------


class RunCancelledError(CriogenError):
    """Run cancelled by user"""

    code = "cancelled"


class RunAbandonedError(CriogenError):
    """The thread was rewound away from this run."""

    code = "abandoned"


class ApprovalExpiredError(CriogenError):
    """Nobody answered the approval in time."""

    code = "approval_expired"


class ApprovalRequiredError(CriogenError):
    """A tool needs an approval, and a run without a thread cannot wait for one."""

    code = "approval_required"


class LimitReachedError(CriogenError):
    """The run reached a limit of its agent."""

    code = "limit_reached"


class ModelFailedError(CriogenError):
    """The model could not be reached, or refused the request."""

    code = "model_failed"


class LeaseLostError(CriogenError):
    """This process was taken for dead, and another may have taken the thread."""

    code = "lease_lost"


class ShuttingDownError(CriogenError):
    """This process is stopping and takes no new runs."""

    code = "shutting_down"


class DatabaseUnavailableError(CriogenError):
    """The database went away, and did not come back in time."""

    code = "database_unavailable"


class InternalError(CriogenError):
    """The run failed for a reason that is not the model's or a tool's; the log has the traceback."""

    code = "internal_error"


class InvalidTransitionError(CriogenError):
    """A run cannot go from this status to that one."""

    code = "invalid_transition"


def error_class(code: str) -> type[CriogenError]:
    """The class for a code, so that a saved failure can be raised again; CriogenError for an unknown one."""
    return _BY_CODE.get(code, CriogenError)


_BY_CODE: dict[str, type[CriogenError]] = {cls.code: cls for cls in CriogenError.__subclasses__()}
