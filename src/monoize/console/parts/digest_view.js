// What a page shows of a run, from its newest digest alone (invariant D). Pure: no document, no clock.
//   newer(one, other) -> digest   latest(events) -> digest | null   view(digest) -> what is drawn   hear(texts, delta)   spoken(texts, digest) -> text

/** The longer record, then the later look at it: in whatever order, however often and with whatever gaps digests come. */
export const newer = (one, other) => {
  if (!one || !other) return one ?? other ?? null;
  for (const name of ["seq", "elapsed_ms", "digest"]) {
    if (one[name] !== other[name]) return one[name] > other[name] ? one : other;
  }
  return one;
};

/** Events as {event, data}, data parsed: states and the outcome carry the whole digest, nothing else counts. */
export const latest = (events) => events.reduce((kept, {data}) => newer(kept, data.digest), null);

const KINDS = {COMPLETED_WITH_TOOLS: "ok", COMPLETED_CHAT_ONLY: "ok", INTERRUPTED: "warn"};
export const kindOf = (outcome) => (outcome ? KINDS[outcome] ?? "bad" : "info");

const budget = (name, used, left) => ({name, used, left, share: left === null || used + left === 0 ? null : used / (used + left)});

export const view = (digest) => ({
  run: digest.run_id,
  hasEnded: digest.outcome !== null,
  needsApproval: digest.failure_code === "approval_required",
  badge: {text: digest.outcome ?? digest.state, kind: kindOf(digest.outcome)},
  failure: digest.failure_code,
  reason: digest.reason,
  step: digest.step,
  synthesis: digest.synthesis,
  budgets: [
    budget("inferences", digest.inferences_used, digest.inferences_remaining),
    budget("tool calls", digest.tool_calls_used, digest.tool_calls_remaining),
    budget(digest.tokens_estimated ? "tokens (estimated)" : "tokens", digest.tokens_consumed, digest.tokens_remaining),
    budget("time", digest.elapsed_ms, digest.time_remaining_ms),
  ],
  context: digest.context_permille / 1000,
  calls: digest.calls,
  output: digest.output,
  entries: digest.seq,
  trail: digest.trail.map(([seq, step, from, to]) => ({seq, step, from, to})),
});

/** A piece of text at its place: one that comes twice, or late, changes nothing. */
export const hear = (texts, {step_id: step, number, text}) => {
  (texts[step] ??= [])[number] = text;
};

/** What the model says just now: gone with its step, and with the run's end, when the output stands in the digest. */
export const spoken = (texts, digest) => (digest?.outcome === null ? (texts[`step-${digest.step}`] ?? []).join("") : "");
