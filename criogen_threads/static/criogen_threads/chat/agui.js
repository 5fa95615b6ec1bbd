// What each AG-UI event does to a transcript.

import { Entry, messageOf, newCall } from "./entries.js";

/** By type: functions of the transcript, the event and the frame that it came in. */
export const HANDLERS = {
  RUN_STARTED: (t, event) => t.started(event.runId),
  RUN_FINISHED: (t, event, frame) => {
    if (event.outcome?.type === "cancelled") t.ended(frame.run, "failed", "cancelled");
    else if (frame.state !== "suspended") t.ended(frame.run, "completed");
  },
  RUN_ERROR: (t, event, frame) => t.ended(frame.run, "failed", event.code, event.message),
  TEXT_MESSAGE_START: (t, event, frame) => {
    t.begun(event.messageId, event.role, frame);
    t.part(event.messageId, "text");
  },
  TEXT_MESSAGE_CONTENT: (t, event) => t.grow(event.messageId, event.delta, event.metadata ?? {}),
  TEXT_MESSAGE_END: (t, event, frame) => end(t, event, frame),
  REASONING_MESSAGE_START: (t, event, frame) => {
    t.begun(messageOf(event.messageId), "assistant", frame);
    t.part(event.messageId, "reasoning");
  },
  REASONING_MESSAGE_CONTENT: (t, event) => t.grow(event.messageId, event.delta, event.metadata ?? {}),
  REASONING_MESSAGE_END: (t, event, frame) => end(t, event, frame),
  TOOL_CALL_START: (t, event, frame) => {
    t.begun(event.parentMessageId, "assistant", frame);
    t.part(event.toolCallId, "call", { call: newCall(event.toolCallId, event.toolCallName) });
  },
  TOOL_CALL_ARGS: (t, event) => t.grow(event.toolCallId, event.delta, event.metadata ?? {}),
  TOOL_CALL_END: (t, event, frame) => end(t, event, frame),
  TOOL_CALL_RESULT: (t, event, frame) =>
    t.result(new Entry(event.messageId, "tool"), event.toolCallId, event.content, event.metadata ?? {}, frame),
  CUSTOM: (t, event, frame) => CUSTOM[event.name]?.(t, event.value, frame),
};

const CUSTOM = {
  "criogen.tool_started": (t, { toolCallId }) => {
    const entry = t.find(messageOf(toolCallId));
    const call = entry?.call(toolCallId);
    if (!call || call.result !== null) return;
    call.state = "running";
    t.tell("entry", { entry });
  },
  "criogen.approval_decided": (t, { id, toolCallId, approved }) => t.decided(id, toolCallId, approved),
  "criogen.rewound": (t, { messageId }) => t.rewound(messageId),
  "criogen.discarded": (t, { messageId }) => t.withdraw(messageId),
  "criogen.partial": (t, { runId, text }) => t.partial(runId, text),
  "criogen.empty_message": (t, value, frame) => t.commit(new Entry(value.messageId, "assistant"), value, frame),
  "criogen.run_failed": (t, { runId, code, message }) => t.tell("rest", { run: runId, status: "failed", code, message }),
};

/** A part ends. With a place its message is saved, once the last of its parts has ended: all in one frame. */
function end(t, event, frame) {
  const entry = t.open?.entry;
  if (!event.metadata || !entry) return;
  if (event.metadata.content) entry.attachments = event.metadata.content;
  if (frame.events.findLast((each) => PART_ENDS.has(each.type)) === event) t.commit(entry, event.metadata, frame);
}

const PART_ENDS = new Set(["TEXT_MESSAGE_END", "REASONING_MESSAGE_END", "TOOL_CALL_END"]);
