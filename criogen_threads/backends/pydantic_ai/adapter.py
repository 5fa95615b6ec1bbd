"""One request through pydantic-ai."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from criogen_threads.backends.base import ModelBackend, ModelError

from .clients import LoopModels

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

    from criogen_threads.backends.base import Delta, ModelAnswer, ModelRequest


class PydanticAIBackend(ModelBackend):
    """A model of pydantic-ai.

    The engine repeats failed requests itself, so a client's own retries are switched off where the model is
    given as a string. For a Model object or a function, say so on the agent (``settings={"max_retries": 0}``)
    or on the client (``AsyncOpenAI(max_retries=0)``).

    HTTP clients belong to the event loop that they were first used on. A string or a function makes one
    model for each event loop, so such a backend may be used from several loops at once; the clients are
    closed when their loop shuts down its asynchronous generators, as ``asyncio.run`` does. **A Model object
    may be used on one loop at a time**: on the next one once the loop before has been shut down. A process
    that runs turns on more than one loop (``send`` in a view, ``submit`` in the background) wants a string or
    a function.

    Args:
        model: A model string such as ``"openai:gpt-5-mini"``, a pydantic-ai Model, or a function without
            arguments that makes a new Model (with a new provider) each time it is called.
        require_finish_reason: Whether an answer whose stream ended without a finish reason counts as cut off,
            and so as a passing failure. Turn it off for a provider that never sends one.
    """

    def __init__(self, model: str | Model | Callable[[], Model], *, require_finish_reason: bool = True) -> None:
        self.model = model
        self.require_finish_reason = require_finish_reason
        self._models = LoopModels(self._build)

    def _build(self) -> Model:
        # runs in a thread: these imports and a client's certificates would hold the event loop
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import Model, infer_model

        for name in ("pydantic_ai.direct", f"{__package__}.answer"):
            import_module(name)
        if isinstance(self.model, str):
            try:
                return infer_model(self.model)
            except UserError as error:  # names the variable that is missing, never its value
                raise ModelError(f"{self.model}: {error}", passing=False) from error
        return self.model if isinstance(self.model, Model) else self.model()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta | ModelAnswer]:
        """See ModelBackend. Deltas and answer hold the same text; half a surrogate pair is U+FFFD in both.

        Raises:
            ModelError: Passing for the statuses 408, 409, 425, 429 (an exhausted quota aside) and 5xx, for
                connections that failed or were cut and for timeouts of the client; otherwise not.
        """
        from .failures import model_error

        try:
            model = await self._models.get()
            from pydantic_ai.direct import model_request_stream

            from .answer import Deltas, finished_answer
            from .request import to_messages, to_parameters

            async with model_request_stream(
                model,
                to_messages(request),
                model_settings=self._settings(model, request),
                model_request_parameters=to_parameters(request),
            ) as response:
                deltas = Deltas()
                async for event in response:
                    for delta in deltas.of(event):
                        yield delta
                answer = finished_answer(response, self.require_finish_reason)
        except Exception as error:
            failure = model_error(error, self.model if isinstance(self.model, str) else "the model")
            if failure is None or failure is error:
                raise
            raise failure from error
        yield answer

    def _settings(self, model: Model, request: ModelRequest) -> ModelSettings | None:
        settings = dict(request.settings)
        if isinstance(self.model, str) and "max_retries" not in getattr(model, "unsupported_settings", ()):
            settings.setdefault("max_retries", 0)
        return settings or None  # type: ignore[return-value]
