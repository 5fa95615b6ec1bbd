"""What is said: the same words for everybody, about 900 characters a turn."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

VOCABULARY = """
order refund flight invoice customer address delivery account ticket balance monday morning please check whether
could status number payment received again because before without hotel change booking support
"""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One turn: the user's question, a tool call, its result, the answer."""

    question: str
    arguments: dict[str, Any]
    result: dict[str, Any]
    answer: str

    @property
    def characters(self) -> int:
        return len(f"{self.question}{self.arguments}{self.result}{self.answer}")


def conversation(turns: int) -> list[Spoken]:
    """So many turns, the same ones each time."""
    source, vocabulary = random.Random(11), VOCABULARY.split()

    def text(size: int) -> str:
        words = [source.choice(vocabulary) for _ in range(size // 5)]
        return " ".join(words)[:size]

    return [
        Spoken(
            question=text(130),
            arguments={"order": number, "note": text(40)},
            result={"order": number, "status": "shipped", "lines": [text(70) for _ in range(4)]},
            answer=text(330),
        )
        for number in range(turns)
    ]
