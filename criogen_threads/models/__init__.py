"""The rows. Only the journal (``criogen_threads.engine.journal``) writes them."""

from criogen_threads.models.checkpoint import Checkpoint
from criogen_threads.models.event import Event
from criogen_threads.models.message import Message
from criogen_threads.models.run import Run
from criogen_threads.models.thread import Thread
from criogen_threads.models.tool_call import Approval, ToolCall
from criogen_threads.models.visitor import Visitor, VisitorAddress
from criogen_threads.models.worker import Worker

__all__ = [
    "Approval",
    "Checkpoint",
    "Event",
    "Message",
    "Run",
    "Thread",
    "ToolCall",
    "Visitor",
    "VisitorAddress",
    "Worker",
]
