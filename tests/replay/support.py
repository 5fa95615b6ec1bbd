"""A recorded conversation, run through the whole engine: its agent, its tools, its turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from criogen_threads.agents import Agent, Tool, ToolContext
from tests.backends.support import REPLAY, chat_backend, replay_module, stored

if TYPE_CHECKING:
    from criogen_threads.backends.base import ModelBackend
    from criogen_threads.engine.replies import Reply
    from criogen_threads.threads import ThreadHandle

RECORDINGS = REPLAY.parent / "recordings"
IDS = sorted(path.stem for path in RECORDINGS.glob("airline-*.json")) or ["airline-00-0"]


@dataclass(frozen=True)
class Turn:
    """What a person said, and everything until the person's next message."""

    text: str
    messages: list[dict[str, Any]]
    calls: dict[tuple[int, int], dict[str, Any]]  # by step and index, which say it where provider's ids repeat
    answers: int


class Conversation:
    """One recording, as turns and as the tools that answer with what was recorded."""

    def __init__(self, recording_id: str) -> None:
        module = replay_module().rec
        recording = module.load(recording_id)
        self.id = recording_id
        self.messages = [stored(message) for message in recording.messages]
        self.turns = list(_turns(recording.messages))
        self.schemas: list[dict[str, Any]] = module.tool_schemas()
        self.consequential = sum(
            each["consequential"] * sum(call["name"] == each["name"] for call in recording.tool_calls)
            for each in self.schemas
        )

    def agent(self, url: str, **consequential: Any) -> Agent:
        """The airline's agent, on the model that the server at ``url`` plays.

        Args:
            consequential: Options of the tools that change something.
        """
        tools = [self._tool(each, consequential if each["consequential"] else {}) for each in self.schemas]
        text = (RECORDINGS / "system.txt").read_text()
        return Agent("airline", model=self.backend(url), instructions=text, tools=tools)

    def backend(self, url: str) -> ModelBackend:
        return chat_backend(url, self.id)

    def work(self, schema: dict[str, Any], context: ToolContext, arguments: dict[str, Any]) -> str:
        """What every tool does: answer as recorded, to the call that was recorded."""
        call = self.call_at(context)
        assert (call["name"], call["arguments"]) == (schema["name"], arguments)
        return str(call["result"])

    def _tool(self, schema: dict[str, Any], options: dict[str, Any]) -> Tool:
        def answer(context: ToolContext, **arguments: Any) -> str:
            return self.work(schema, context, arguments)

        name = schema["name"]
        description = f"The airline's {name}."
        return Tool(answer, name, description, schema["parameters"], **options)

    def call_at(self, context: ToolContext) -> dict[str, Any]:
        """The recorded call at the place where the engine stands: turn, step and index."""
        step, index = context.idempotency_key.split(":")[1:]
        return self.turns[context.state["turn"]].calls[int(step), int(index)]

    def until(self, turns: int) -> list[dict[str, Any]]:
        """The messages of the first turns."""
        return self.messages[: sum(len(turn.messages) for turn in self.turns[:turns])]


def _turns(messages: list[dict[str, Any]]) -> Any:
    starts = [index for index, message in enumerate(messages) if message["role"] == "user"]
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        part = messages[start:end]
        assert "tool_calls" not in part[-1]  # each turn ends with an answer
        answers = [message for message in part if message["role"] == "assistant"]
        results = iter([message["content"] for message in part if message["role"] == "tool"])
        calls = {
            (step, index): {**call, "result": next(results)}
            for step, answer in enumerate(answers, start=1)
            for index, call in enumerate(answer.get("tool_calls", ()))
        }
        yield Turn(part[0]["content"], part, calls, len(answers))


async def stream_turn(
    chat: ThreadHandle, conversation: Conversation, number: int
) -> tuple[Reply, list[dict[str, Any]]]:
    """Run one turn, streamed; the reply, and the events that came before it."""
    text = conversation.turns[number].text
    events = [event async for event in chat.stream(text, turn=number)]
    return events[-1]["reply"], events[:-1]


async def said(chat: ThreadHandle) -> list[dict[str, Any]]:
    """``messages()``, what they say and nothing else."""
    return [{"role": each["role"], "content": each["content"]} for each in await chat.messages()]
