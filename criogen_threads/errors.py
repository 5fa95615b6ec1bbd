"""Every error that the package raises: one class a code.

A caller tells errors apart by ``error.code``, which also stands on a failed run (``run.error_code``) and in
every API answer. The text is for people; the code is the contract. What is stored and logged is in English; who
reads it is shown it in their own language.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils.translation import gettext


def _(text: str) -> str:
    """Mark a text for the catalogue; Django's own mark asks for settings, which an import may come before."""
    return text


class CriogenError(Exception):
    """Something that the package refuses or could not do.

    Args:
        message: What happened, for a person; without one, the usual ``text`` of the code.
        details: Facts that a program may want (JSON values), such as ``decided_by`` of a late answer.
    """

    code: ClassVar[str] = "error"
    text: ClassVar[str] = _("Something was refused, or failed.")

    def __init__(self, message: str = "", **details: Any) -> None:
        super().__init__(message or self.text)
        self.details = details

    @property
    def shown(self) -> str:
        """The message in the reader's language, as far as the catalogue has it."""
        return gettext(str(self))


# The state of the thread -------------------------------------------------------------------------------------


class ThreadBusyError(CriogenError):
    code = "thread_busy"
    text = _("Another run holds the thread.")


class ThreadSuspendedError(CriogenError):
    code = "thread_suspended"
    text = _("An approval waits: answer it with approve(), reject() or decide().")


class ThreadInterruptedError(CriogenError):
    code = "thread_interrupted"
    text = _("The last run never finished, its process died: continue it with retry().")


class ThreadDelegatedError(CriogenError):
    code = "thread_delegated"
    text = _("An agent was asked here by another one: say it in the conversation that people speak in.")


class ResumeInvalidError(CriogenError):
    code = "resume_invalid"
    text = _("There is nothing to retry, or the decision does not fit.")


class CheckpointNotFoundError(CriogenError):
    code = "checkpoint_not_found"
    text = _("The thread has no such checkpoint.")


class ThreadNotFoundError(CriogenError):
    code = "thread_not_found"
    text = _("There is no such thread.")


class RunNotFoundError(CriogenError):
    code = "run_not_found"
    text = _("There is no such run.")


class AgentNotFoundError(CriogenError):
    code = "agent_not_found"
    text = _("No agent is registered under this name.")


class PermissionDeniedError(CriogenError):
    code = "permission_denied"
    text = _("This actor may not do that.")


# Input that is refused before anything is written ---------------------------------------------------------------


class InvalidThreadIdError(CriogenError):
    code = "invalid_thread_id"
    text = _("A thread id has 1 to 200 characters, none of them a slash, white space or control; not '.' or '..'.")


class InvalidMessageError(CriogenError):
    code = "invalid_message"
    text = _("The message cannot be stored.")


class MessageTooLargeError(CriogenError):
    code = "message_too_large"
    text = _("The message is larger than MAX_MESSAGE_BYTES allows.")


class InvalidStateError(CriogenError):
    code = "invalid_state"
    text = _("The state is not JSON.")


class InvalidArgumentsError(CriogenError):
    code = "invalid_arguments"
    text = _("The edited arguments do not fit the tool.")


class InvalidEventError(CriogenError):
    code = "invalid_event"
    text = _("The event cannot be stored.")


class InvalidOptionError(CriogenError):
    code = "invalid_option"
    text = _("An option has a value that it cannot have.")


class ClientIdConflictError(CriogenError):
    code = "client_id_conflict"
    text = _("This client_id was sent before with another text.")


class InTransactionError(CriogenError):
    code = "in_transaction"
    text = _("A thread cannot be used inside the caller's own open transaction: it would wait for it for ever.")


class SyncInAsyncError(CriogenError):
    code = "sync_in_async"
    text = _("A _sync call would block the event loop that it needs: await the call without _sync.")


class TooManyRunsError(CriogenError):
    code = "too_many_runs"
    text = _("This user has as many live and waiting runs as MAX_RUNS_PER_USER allows.")


class TooManyThreadsError(CriogenError):
    code = "too_many_threads"
    text = _("Too many conversations were begun from this address. Try again later.")


class TicketInvalidError(CriogenError):
    code = "ticket_invalid"
    text = _("The ticket is forged, too old, or another user's.")


class AsgiRequiredError(CriogenError):
    code = "asgi_required"
    text = _("A stream needs an ASGI server; over WSGI, poll the JSON pages of this address.")


# How a run ends ------------------------------------------------------------------------------------------------


class RunCancelledError(CriogenError):
    code = "cancelled"
    text = _("Run cancelled by user")


class RunAbandonedError(CriogenError):
    code = "abandoned"
    text = _("The thread was rewound away from this run.")


class ApprovalExpiredError(CriogenError):
    code = "approval_expired"
    text = _("Nobody answered the approval in time.")


class ApprovalRequiredError(CriogenError):
    code = "approval_required"
    text = _("A tool needs an approval, and a run without a thread cannot wait for one.")


class LimitReachedError(CriogenError):
    code = "limit_reached"
    text = _("The run reached a limit of its agent.")


class ModelFailedError(CriogenError):
    code = "model_failed"
    text = _("The model could not be reached, or refused the request.")


class LeaseLostError(CriogenError):
    code = "lease_lost"
    text = _("This process was taken for dead, and another may have taken the thread.")


class ShuttingDownError(CriogenError):
    code = "shutting_down"
    text = _("This process is stopping and takes no new runs.")


class DatabaseUnavailableError(CriogenError):
    code = "database_unavailable"
    text = _("The database went away, and did not come back in time.")


class InternalError(CriogenError):
    code = "internal_error"
    text = _("The run failed for a reason that is not the model's or a tool's; the log has the traceback.")


class InvalidTransitionError(CriogenError):
    code = "invalid_transition"
    text = _("A run cannot go from this status to that one.")


def error_class(code: str) -> type[CriogenError]:
    """The class for a code, so that a saved failure can be raised again; CriogenError for an unknown one."""
    return _BY_CODE.get(code, CriogenError)


_BY_CODE: dict[str, type[CriogenError]] = {cls.code: cls for cls in CriogenError.__subclasses__()}
