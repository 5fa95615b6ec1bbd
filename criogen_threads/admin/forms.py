"""Editing a tool call's arguments: a form made from the tool's JSON schema.

What a person does not touch stays exactly as the model wrote it, though browsers change line ends and numbers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from criogen_threads import payload
from criogen_threads.admin.text import ABSENT, is_unseen
from criogen_threads.agents.secrecy import MASK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from criogen_threads.agents import Tool

PREFIX = "argument-"
LONG = 60
YES_NO = [("true", gettext_lazy("yes")), ("false", gettext_lazy("no"))]


class ArgumentsForm(forms.Form):
    """One field for each argument; secrets have none, and stay as they are.

    Args:
        tool: Whose schema it is.
        arguments: Those that the person is shown: secrets masked.
        data: What was posted.
    """

    def __init__(self, tool: Tool, arguments: Mapping[str, Any], data: Any = None) -> None:
        super().__init__(data)
        self.arguments = arguments
        self.hidden = [name for name in arguments if name in tool.secrets]
        properties = tool.parameters.get("properties", {})
        required = tool.parameters.get("required", [])
        for name in dict.fromkeys([*properties, *arguments]):
            if name not in tool.secrets:
                value = arguments.get(name, ABSENT)
                field = _field(properties.get(name, {}), value, required=name in required)
                field.label = name
                self.fields[PREFIX + name] = field

    def edited(self) -> dict[str, Any] | None:
        """The arguments as they were edited; None where nothing was. Call it when the form is valid."""
        result: dict[str, Any] = {}
        for name in dict.fromkeys([*self.arguments, *(key.removeprefix(PREFIX) for key in self.fields)]):
            value = self.cleaned_data.get(PREFIX + name, MASK)
            if value is not ABSENT:
                result[name] = value
        return None if payload.digest(result) == payload.digest(dict(self.arguments)) else result


class _Argument(forms.CharField):
    """An argument as text, and how the text is read. Blank leaves an optional argument out."""

    def __init__(self, value: Any, *, required: bool, hint: str, **options: Any) -> None:
        self.before = value
        initial = "" if value is ABSENT else self.write(value)
        super().__init__(required=False, strip=False, initial=initial, help_text=hint, **options)
        self.needed = required

    def write(self, value: Any) -> str:
        return str(value)

    def read(self, text: str) -> Any:
        return text

    def clean(self, value: Any) -> Any:
        text = (value or "").replace("\r\n", "\n").replace("\r", "\n")
        if self.before is not ABSENT and text == str(self.initial).replace("\r\n", "\n").replace("\r", "\n"):
            return self.before
        if not text and (self.before is ABSENT or not self.needed):
            return ABSENT
        try:
            read = self.read(text)
            payload.check(read)
        except (ValueError, RecursionError):
            raise forms.ValidationError(_("This cannot be read: %(hint)s") % {"hint": self.help_text}) from None
        return read


class _JSON(_Argument):
    """Anything, as JSON; what cannot be seen is written as its number."""

    def write(self, value: Any) -> str:
        text = json.dumps(value, ensure_ascii=False, indent=2)
        return "".join(_escaped(character) if is_unseen(character) else character for character in text)

    def read(self, text: str) -> Any:
        return json.loads(text, parse_constant=_refuse)


class _Number(_JSON):
    """A number, and nothing else that JSON has."""

    def read(self, text: str) -> Any:
        value = super().read(text)
        if not _is_number(value):
            raise ValueError(text)
        return value


class _YesNo(_JSON):
    """Yes or no."""

    def clean(self, value: Any) -> Any:
        if value not in ("", "true", "false", None):
            raise forms.ValidationError(_("This cannot be read: %(hint)s") % {"hint": self.help_text})
        return super().clean(value)


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _field(schema: Mapping[str, Any], value: Any, *, required: bool) -> _Argument:
    kind, options = schema.get("type"), schema.get("enum")
    if options and all(isinstance(each, str) for each in options) and value in (*options, ABSENT):
        choices = [*([] if required else [("", "—")]), *((each, each) for each in options)]
        return _Argument(value, required=required, hint=_("one of these"), widget=forms.Select(choices=choices))
    if kind == "boolean" and (isinstance(value, bool) or value is ABSENT):
        choices = [*([] if required else [("", "—")]), *YES_NO]
        return _YesNo(value, required=required, hint=_("yes or no"), widget=forms.Select(choices=choices))
    if _is_number(value) or (kind in ("integer", "number") and value is ABSENT):
        return _Number(value, required=required, hint=_("a number"), widget=forms.TextInput())
    if isinstance(value, str) and not any(map(is_unseen, value)) and value[:1] != "\n":
        return _Argument(value, required=required, hint=_("text"), widget=_text_widget(value))
    if value is ABSENT and kind == "string":
        return _Argument(value, required=required, hint=_("text"), widget=_text_widget(""))
    return _JSON(value, required=required, hint=_("JSON"), widget=forms.Textarea(attrs={"rows": 5}))


def _text_widget(value: str) -> forms.Widget:
    if len(value) > LONG or "\n" in value:
        return forms.Textarea(attrs={"rows": 5})
    return forms.TextInput(attrs={"size": LONG})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
