"""What the API takes."""

from __future__ import annotations

from typing import Any

from django.core.validators import ProhibitNullCharactersValidator
from rest_framework import serializers
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from criogen_threads.engine.siblings import BEGINNING

PROHIBITING = (ProhibitNullCharactersValidator, ProhibitSurrogateCharactersValidator)


class Text(serializers.CharField):
    """Text as it was sent: nothing trimmed, NUL allowed. What cannot be stored the journal refuses."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_blank": True, "trim_whitespace": False, **options})
        self.validators = [each for each in self.validators if not isinstance(each, PROHIBITING)]

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data


class Whole(serializers.IntegerField):
    """A number that is one: not text, not true."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class Truth(serializers.BooleanField):
    """True or false; not a word that means them."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=str(data)[:100])
        return data


class Strict(serializers.Serializer[Any]):
    """A body with these fields and no others, so that a misspelt option is not silently left out."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(set(data) - set(self.fields)) if isinstance(data, dict) else []
        if unknown:
            raise serializers.ValidationError({name[:100]: ["There is no such field."] for name in unknown})
        return super().to_internal_value(data)


class Place(serializers.UUIDField):
    """The id of a checkpoint, or "beginning"."""

    def to_internal_value(self, data: Any) -> Any:
        return data if data == BEGINNING else super().to_internal_value(data)


ON_BUSY = ("wait", "reject", "interrupt")


class NewThread(Strict):
    agent = Text(required=False, help_text="Needed without a ticket.")
    key = Text(required=False, help_text="The server's choice without a ticket, unless the policy lets users choose.")
    ticket = Text(required=False, help_text="The site's word that this user may begin this thread.")
    title = Text(required=False, max_length=500)
    metadata = serializers.DictField(required=False)


class ThreadPatch(Strict):
    title = Text(required=False, max_length=500)
    metadata = serializers.DictField(required=False)
    agent = Text(required=False, help_text="Who answers from the next turn on.")


class NewRun(Strict):
    text = Text(required=False, help_text="The message; or `blocks`.")
    blocks = serializers.ListField(child=serializers.DictField(), required=False)
    client_id = Text(required=False, allow_null=True)
    state = serializers.DictField(required=False)
    on_busy = serializers.ChoiceField(ON_BUSY, required=False)
    agent = Text(required=False, help_text="Another agent than the thread's, for this message.")
    checkpoint = Place(required=False, help_text="Go back there first, in the same save.")
    locale = Text(required=False)
    ticket = Text(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("text" in attrs) == ("blocks" in attrs):
            raise serializers.ValidationError("Either text or blocks.")
        if any("provider" in block for block in attrs.get("blocks", ())):
            raise serializers.ValidationError("What a provider needs back is not a client's to say.")
        return attrs


class Rewinding(Strict):
    checkpoint = Place()
    on_busy = serializers.ChoiceField(ON_BUSY, required=False)


class Approving(Strict):
    version = Whole(min_value=0, help_text="That of the thread as it was shown.")


class Rejecting(Approving):
    reason = Text(required=False, max_length=10_000)


class Deciding(Strict):
    approve = Truth()
    reason = Text(required=False, max_length=10_000)
    arguments = serializers.DictField(required=False, help_text="Edited arguments, whole.")
    digest = Text(required=False, help_text="That of the arguments that were shown.")


class DecidingSome(Strict):
    decisions = serializers.DictField(help_text="By the id of the call: true, false, or as for one approval.")
    version = Whole(required=False, min_value=0)


def validated(shape: type[Strict], data: Any) -> dict[str, Any]:
    """What a client sent, checked.

    Raises:
        ValidationError: It does not fit; 400 with ``invalid_option``.
    """
    given = shape(data=data)
    given.is_valid(raise_exception=True)
    return dict(given.validated_data)
