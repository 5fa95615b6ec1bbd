"""How a site changes the way turns are handled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from criogen_threads.agents.context import ToolContext
    from criogen_threads.backends.base import ModelAnswer, ModelRequest
    from criogen_threads.errors import CriogenError


class Handling:
    """Hooks around the turns of an agent and the steps of a turn, each of which asks the model once.

    A subclass overrides what it wants, and is given to the agent as ``handling=``. No hook can make what is saved
    untrue: a step is saved with what comes out of its hooks, and the run ends as it is saved. What a hook raises before
    that fails the run, with its own code if it is a CriogenError, else ``internal_error``; what it raises after that is
    logged, and changes nothing; it has 30 seconds there. A turn that waits for people is taken up again with its hooks.
    """

    async def before_turn(self, context: ToolContext) -> None:
        """A run was taken up: at its beginning, after an approval, or by a retry."""

    async def after_turn(self, context: ToolContext, status: str) -> None:
        """It is saved as "completed" or "suspended"."""

    async def on_turn_error(self, context: ToolContext, error: CriogenError) -> None:
        """It is saved as failed, with the code of this error."""

    async def before_step(self, context: ToolContext, request: ModelRequest) -> ModelRequest:  # noqa: ARG002
        """What the model is asked.

        Returns:
            The request as it is sent; what is stored stays as it is.
        """
        return request

    async def answer(self, context: ToolContext, request: ModelRequest) -> ModelAnswer | None:  # noqa: ARG002
        """An answer in the place of the model's.

        Returns:
            The answer, which is saved like one of the model; None: the model is asked.
        """
        return None

    async def after_step(self, context: ToolContext, answer: ModelAnswer) -> ModelAnswer:  # noqa: ARG002
        """What was answered.

        Returns:
            The answer as it is saved. The pieces of the model's own that were streamed before are withdrawn where
            this is another one.
        """
        return answer

    async def on_step_error(self, context: ToolContext, error: CriogenError) -> ModelAnswer | None:  # noqa: ARG002
        """The model could not be asked, after all repeats.

        Returns:
            An answer in its place; None: the run fails.
        """
        return None
