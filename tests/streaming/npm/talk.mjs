// Talks to the AG-UI endpoint with an unmodified @ag-ui/client, and prints what it has in the end.
// Arguments: module, url, thread, headers (JSON), steps (JSON).
const [module, url, threadId, headers, steps] = process.argv.slice(2);
const { HttpAgent } = await import(module);
const agent = new HttpAgent({ url, threadId, headers: JSON.parse(headers) });
const seen = [];
let outcome = null;
let stop = false;
const subscriber = {
  onEvent: ({ event }) => {
    seen.push(event.type);
    if (event.type === "CUSTOM") seen.push(event.name);
    if (event.type === "RUN_FINISHED") outcome = event.outcome ?? null;
    if (event.type === "RUN_ERROR") outcome = { type: "error", code: event.code };
    if (stop && event.type === "TEXT_MESSAGE_CONTENT") { stop = false; agent.abortRun(); }
  },
};
for (const step of JSON.parse(steps)) {
  outcome = null;
  stop = step.abort ?? false;
  if (step.say) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: step.say });
  const parameters = { runId: step.runId ?? crypto.randomUUID() };
  if (step.answer !== undefined) {
    parameters.resume = agent.pendingInterrupts.map((each) => ({
      interruptId: each.id, status: "resolved", payload: { approve: step.answer },
    }));
  }
  let error = null;
  try { await agent.runAgent(parameters, subscriber); } catch (problem) { error = String(problem.message ?? problem); }
  console.log(JSON.stringify({ outcome, error, messages: agent.messages, pending: agent.pendingInterrupts ?? [], seen: seen.splice(0) }));
}
