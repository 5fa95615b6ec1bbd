"""What the API gives, for the schema: the views of the Python API, field by field."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class Anything(serializers.JSONField):
    """Any JSON value."""


def _time() -> serializers.IntegerField:
    return serializers.IntegerField(help_text="Milliseconds since 1970.")


def _maybe_time() -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=True, help_text="Milliseconds since 1970.")


class Problem(serializers.Serializer[Any]):
    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField(help_text="What a program should look at.")
    details = serializers.DictField(required=False)


class ThreadShape(serializers.Serializer[Any]):
    key = serializers.CharField()
    epoch = serializers.UUIDField(help_text="The thread's own id: another one after it was deleted and made anew.")
    agent = serializers.CharField()
    owner = serializers.CharField(allow_null=True)
    title = serializers.CharField(allow_blank=True)
    metadata = serializers.DictField()
    status = serializers.CharField(help_text="idle, running, suspended, failed or interrupted.")
    current_run = serializers.UUIDField(allow_null=True)
    version = serializers.IntegerField()
    seq = serializers.IntegerField(help_text="The number of its newest event.")
    pending = serializers.IntegerField(help_text="Approvals that wait.")
    tokens = serializers.IntegerField()
    created_at_ms = _time()
    last_message_at_ms = _maybe_time()


class MessageShape(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    role = serializers.CharField()
    content = serializers.ListField(child=serializers.DictField())
    run_id = serializers.UUIDField(allow_null=True)
    thread_id = serializers.UUIDField()
    parent_id = serializers.UUIDField(allow_null=True, help_text="The message before it on its branch.")
    agent = serializers.CharField(allow_blank=True)
    position = serializers.IntegerField()
    metadata = serializers.DictField()
    created_at_ms = _time()
    html = serializers.CharField(required=False, allow_null=True, help_text="With `html`; null: it is plain text.")
    index = serializers.IntegerField(required=False, help_text="With `branches`: which of its siblings it is, from 0.")
    siblings = serializers.IntegerField(required=False, help_text="With `branches`: how many they are.")


class SiblingShape(MessageShape):
    current = serializers.BooleanField(help_text="It is on the branch that goes on.")
    checkpoint = serializers.UUIDField(allow_null=True, help_text="The newest of its branch: rewind there to switch.")
    before = serializers.CharField(
        allow_null=True,
        help_text="Where to go back to, to say something else in its place: a checkpoint, or `beginning`.",
    )


class CheckpointShape(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    version = serializers.IntegerField()
    status = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]
    step = serializers.IntegerField()
    run_id = serializers.UUIDField(allow_null=True)
    parent_id = serializers.UUIDField(allow_null=True)
    created_at_ms = _time()
    cut = serializers.BooleanField(required=False, help_text="True where what was said before was cut off.")


class EventShape(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    seq = serializers.IntegerField()
    type = serializers.CharField()
    thread_id = serializers.UUIDField()
    run_id = serializers.UUIDField(allow_null=True)
    agent = serializers.CharField(allow_blank=True)
    parent_id = serializers.UUIDField(allow_null=True)
    message_id = serializers.UUIDField(allow_null=True)
    tool_call_id = serializers.UUIDField(allow_null=True)
    details = serializers.DictField()
    created_at_ms = _time()


class LinkShape(serializers.Serializer[Any]):
    run_id = serializers.UUIDField()
    agent = serializers.CharField()
    thread = serializers.CharField()
    call_id = serializers.UUIDField(allow_null=True, help_text="The call that asked for this run.")


class CallShape(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    agent = serializers.CharField(help_text="Who asked for it: the thread's agent, or one that was asked in it.")
    chain = LinkShape(many=True, help_text="The runs that asked each other down to it, where others were asked.")
    name = serializers.CharField()
    arguments = Anything(allow_null=True)
    hidden = serializers.BooleanField(required=False, help_text="Only its name is shown to this user.")
    digest = serializers.CharField(allow_blank=True, help_text="Of the arguments; an answer may carry it back.")
    approver = serializers.CharField(allow_blank=True)
    run_id = serializers.UUIDField()
    created_at_ms = _time()
    expires_at_ms = _maybe_time()

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), "try": serializers.IntegerField()}


class WaitingShape(CallShape):
    within = serializers.CharField(required=False, help_text="The call of this thread that waits for it.")
    mine = serializers.BooleanField(help_text="Whether this user may answer it.")

    def get_fields(self) -> dict[str, Any]:
        return {**super().get_fields(), "toolCallId": serializers.CharField(help_text="On the wire.")}


class ApprovalShape(CallShape):
    thread = serializers.CharField(help_text="The one that people speak in, where an asked agent waits.")
    version = serializers.IntegerField(help_text="The thread's; approve and reject want it back.")


class RunShape(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    thread = serializers.CharField()
    number = serializers.IntegerField()
    status = serializers.CharField()
    agent = serializers.CharField()
    actor_id = Anything(allow_null=True)
    attempt = serializers.IntegerField()
    client_id = serializers.CharField(allow_null=True)
    error_code = serializers.CharField(allow_blank=True)
    last_error = serializers.CharField(allow_null=True)
    usage = serializers.DictField()
    forked_from = serializers.UUIDField(allow_null=True)
    parent_run = serializers.UUIDField(allow_null=True)
    required_action = CallShape(many=True, allow_null=True)
    created_at_ms = _time()
    started_at_ms = _maybe_time()
    completed_at_ms = _maybe_time()


class TreeCallShape(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    tool_name = serializers.CharField()
    agent = serializers.CharField()
    status = serializers.CharField()
    started_at_ms = _maybe_time()
    finished_at_ms = _maybe_time()
    duration_ms = serializers.IntegerField(allow_null=True)
    run = serializers.DictField(allow_null=True, help_text="Of the agent that it asked: a tree like this one.")


class TreeShape(serializers.Serializer[Any]):
    run_id = serializers.UUIDField()
    agent = serializers.CharField()
    thread = serializers.CharField()
    status = serializers.CharField()
    attempt = serializers.IntegerField()
    error_code = serializers.CharField(allow_blank=True)
    usage = serializers.DictField(help_text="With that of the runs below it, under `agents` by agent.")
    started_at_ms = _maybe_time()
    completed_at_ms = _maybe_time()
    duration_ms = serializers.IntegerField(allow_null=True)
    calls = TreeCallShape(many=True)


class OpenRunShape(RunShape):
    thread = None  # type: ignore[assignment]
    required_action = None  # type: ignore[assignment]


class AnsweredShape(serializers.Serializer[Any]):
    thread = serializers.CharField()
    run_id = serializers.UUIDField()
    status = serializers.CharField()
    pending = serializers.IntegerField(help_text="Approvals that still wait.")


class AgentShape(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)


class AgentList(serializers.Serializer[Any]):
    results = AgentShape(many=True)
    next = serializers.URLField(allow_null=True)


class ThreadPage(serializers.Serializer[Any]):
    results = ThreadShape(many=True)
    next = serializers.URLField(allow_null=True)


class ApprovalPage(serializers.Serializer[Any]):
    results = ApprovalShape(many=True)
    next = serializers.URLField(allow_null=True)


class PageOfThread(serializers.Serializer[Any]):
    epoch = serializers.UUIDField()
    seq = serializers.IntegerField(help_text="The thread's newest event when the page was begun.")
    next = serializers.URLField(allow_null=True)


class MessagePage(PageOfThread):
    results = MessageShape(many=True)


class SiblingPage(PageOfThread):
    results = SiblingShape(many=True)


class CheckpointPage(PageOfThread):
    results = CheckpointShape(many=True)


class EventPage(PageOfThread):
    results = EventShape(many=True)


class FrameShape(serializers.Serializer[Any]):
    seq = serializers.IntegerField(allow_null=True, help_text="Of the event that it tells; null: live, or a state.")
    run = serializers.UUIDField(allow_null=True)
    agent = serializers.CharField(required=False)
    events = serializers.ListField(child=serializers.DictField(), help_text="AG-UI events.")
    client_id = serializers.CharField(required=False)
    html = serializers.CharField(required=False, allow_null=True)
    state = serializers.CharField(required=False)
    pending = WaitingShape(many=True, required=False)
    message = serializers.CharField(
        required=False, help_text="What a live piece belongs to, a message or a part of it."
    )
    offset = serializers.IntegerField(required=False, help_text="Code points before it.")
    end = serializers.IntegerField(required=False)


class FeedPage(serializers.Serializer[Any]):
    epoch = serializers.UUIDField()
    seq = serializers.IntegerField(help_text="The thread's newest event.")
    after = serializers.IntegerField(help_text="The newest event that this page has told of.")
    resync = serializers.BooleanField(help_text="What the client had is of another thread; this one is told anew.")
    state = serializers.CharField(help_text="idle, running, suspended, failed or interrupted.")
    run = OpenRunShape(allow_null=True, help_text="Under way, or waiting.")
    queued = OpenRunShape(many=True)
    pending = WaitingShape(many=True)
    results = FrameShape(many=True)
    next = serializers.URLField(help_text="Where to look on; there always is one.")


class RunPage(PageOfThread):
    results = RunShape(many=True)
