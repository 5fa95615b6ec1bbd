"""Every model that pydantic-ai knows, as a backend (pydantic-ai-slim 2.60 or later, below 3).

``adapter`` sends one request; ``request`` turns stored messages into pydantic-ai's, ``answer`` turns what
comes back into stored blocks; ``text`` cleans what neither side would take; ``failures`` says what an exception means;
``clients`` keeps one model per event loop. Importing this package does not import pydantic-ai: the first request does,
in a thread.
"""

from .adapter import PydanticAIBackend

__all__ = ["PydanticAIBackend"]
