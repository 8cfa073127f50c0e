// A run as it lives: drawn from the newest digest, with the calls that its transcript tells of up to there.
//   box.append(runView(id, {signal, onChild: (id) => somebody went on with it, onDigest, onEnd}))   await begin(body) -> id of the new run

import { badge, button, dim, h, replace } from "../core/dom.js";
import { api } from "../core/api.js";
import { count, cut, ms, percent } from "../core/format.js";
import { confirm } from "./dialog.js";
import { hear, newer, spoken, view } from "./digest_view.js";
import { failed, loading } from "./states.js";

const RETRY_MS = 1500;
const DOING = {PRECHECK: "The contract is checked.", INFER: "The model answers.", EXECUTE: "Tools are at work."};
const STATUS = {waiting: "info", error: "bad"};

export const code = (text) => h("pre.code", cut(text));

export const begin = async (body) => {
  const response = await api.raw("/v1/agent/runs", {method: "POST", body: {...body, stream: true}});
  response.body.cancel().catch(() => {}); // it goes on by itself; its events are asked for by its id
  return response.headers.get("x-monoize-run");
};

export const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

/** JSON as people read it, anything else as it is. */
export const pretty = (text) => {
  const value = parsed(text);
  return typeof value === "object" ? JSON.stringify(value, null, 2) : text;
};

/** What was said and done, of an entry and the payloads beside it. */
const turn = ({from, to, action_hash: asked, result_hash: given}, payloads) => {
  const action = parsed(payloads[asked]?.text ?? "");
  if (from === "VALIDATE_CALLS" && action.content) return h("pre.said", cut(action.content));
  if (from !== "EXECUTE" || to !== "EXECUTE" || !action.call) return null;
  const {status, result, error} = parsed(payloads[given]?.text ?? "");
  const told = status === "ok" ? result?.content ?? JSON.stringify(result, null, 2) : error?.message ?? payloads[given]?.text;
  return h("details.card", {open: status !== "ok"},
    h("summary.bar", h("code", action.call.name), badge(status ?? "cut", status === "ok" ? "ok" : "bad"), h("span.dim.mono.clip.grow", action.arguments)),
    code(pretty(action.arguments)), told && code(told));
};

const gauge = ({name, used, left, share}) => {
  const shown = name === "time" ? ms : count;
  return h(".stat", dim(name), h("b", shown(used)), dim(left === null ? "no limit" : `${shown(left)} left`),
    share !== null && h("progress", {max: 1, value: share, "aria-label": `${name} used`}));
};

const drawState = (seen) => [
  !seen.hasEnded && h("p.dim", `Step ${seen.step}. ${DOING[seen.badge.text] ?? ""}`),
  h(".grid", {style: {"--min": "110px"}}, seen.budgets.map(gauge),
    h(".stat", dim("context"), h("b", percent(seen.context)), dim(seen.synthesis ? "closing with a summary" : "of the window"))),
  !seen.hasEnded && h(".bar", seen.calls.map(({name, status}) => [h("code", name), badge(status, STATUS[status] ?? status)])),
];

const drawEnd = (seen) => h("div", {class: `notice ${seen.badge.kind}`},
  h("p.grow", h("b", seen.badge.text), seen.failure && ` (${seen.failure})`, seen.reason && `: ${seen.reason}`),
  location.pathname !== `/runs/${seen.run}` && h("a.button.small", {href: `/runs/${seen.run}`}, "Transcript"));

const approval = (id, waiting, onChild) => {
  const problem = h("div");
  const note = h("input.grow", {style: {"flex-basis": "220px"}, value: `No. Go on without ${waiting[0].name}.`, "aria-label": "What to say instead"});
  const go = (event, body) => {
    event.preventDefault();
    begin({parent_run_id: id, ...body}).then(onChild, (error) => replace(problem, failed(error)));
  };
  return h("form.card", {"aria-label": "Waiting for approval", on: {submit: (event) => go(event, {task: note.value})}}, h("h3", "This needs your yes"),
    waiting.map((call) => [h("code", call.name), code(pretty(call.arguments))]),
    h(".bar", button("Approve", (event) => go(event, {approve: waiting.map((call) => call.id)}), "primary"),
      h("button.danger", {type: "submit"}, "Refuse"), note), problem);
};

export const runView = (id, {signal, onChild, onDigest, onEnd}) => {
  const path = `/v1/agent/runs/${id}`;
  const [name, state, turns, words, end] = ["span", "div", "div", "pre", "div"].map((tag) => h(tag, {class: tag === "pre" ? "said" : "stack", "aria-live": tag === "pre" && "polite"}));
  const texts = {};
  let [digest, told, telling, due] = [null, 0, null, 0];

  const tell = async () => {
    while (told < digest.seq) {
      const {data, payloads} = await api.get(`${path}/entries`, {from: told, limit: 100, payloads: true}, {signal});
      const entries = data.filter(({seq}) => seq >= told && seq < digest.seq);
      turns.append(...entries.map((entry) => turn(entry, payloads)).filter(Boolean));
      told = entries.length ? entries.at(-1).seq + 1 : digest.seq;
    }
  };
  const tellOnce = () => {
    telling ??= tell().catch(() => {}).finally(() => { telling = null; });
    return telling;
  };
  const draw = () => {
    due = 0;
    const seen = view(digest);
    replace(name, badge(seen.badge.text, seen.badge.kind));
    replace(state, drawState(seen));
    stop.hidden = seen.hasEnded;
    words.textContent = cut(spoken(texts, digest));
  };
  const finish = async () => {
    draw();
    await telling;
    await tellOnce();
    const seen = view(digest);
    const last = turns.lastElementChild;
    replace(end, seen.output && last?.textContent !== cut(seen.output) && h("pre.said", cut(seen.output)), drawEnd(seen));
    if (seen.needsApproval && onChild) {
      const {waiting_for_approval: waiting} = await api.get(path, null, {signal});
      if (waiting.length) end.append(approval(id, waiting, onChild));
    }
    onEnd?.(digest);
  };
  const take = ({event, data}) => {
    const heard = JSON.parse(data);
    if (event === "delta" && heard.kind === "text") hear(texts, heard);
    const kept = newer(digest, heard.digest);
    if (kept !== digest) {
      digest = kept;
      onDigest?.(digest);
      tellOnce();
      draw();
    } else if (digest) due ||= requestAnimationFrame(draw);
  };
  const watch = async () => {
    while (!digest?.outcome) {
      try {
        for await (const event of api.events(`${path}/events`, {signal})) take(event);
      } catch (error) {
        if (error.status || signal.aborted) throw error;
      }
      if (!digest?.outcome) await new Promise((resolve) => { setTimeout(resolve, RETRY_MS); }); // nothing is missed: the next digest is whole
    }
    await finish();
  };
  const interrupt = async () => {
    if (stop.disabled || !await confirm({title: "Interrupt this run?", text: "It ends where it is; what was done stays done.", action: "Interrupt", danger: true})) return;
    stop.disabled = true;
    api.post(`${path}/interrupt`).catch((error) => replace(end, failed(error)));
  };
  const stop = button("Interrupt", interrupt, "danger small");
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !digest || stop.hidden || document.querySelector("dialog[open]")) return;
    event.preventDefault(); // or the same key closes the question again
    interrupt();
  }, {signal});
  replace(state, loading(3));
  watch().catch((error) => signal.aborted || replace(end, failed(error)));
  return h("section.card.run", {tabindex: -1, "aria-label": `Run ${id}`}, h("header", name, h("a", {href: `/runs/${id}`, class: "mono clip grow"}, id), stop), state, turns, words, end);
};
