// Runs: every agent run, and one of them as a timeline that can be verified, replayed and taken along.

import { badge, button, dim, facts, field, h, options, replace } from "../core/dom.js";
import { api } from "../core/api.js";
import { count, ms, time } from "../core/format.js";
import { diff } from "../parts/diff.js";
import { kindOf, view } from "../parts/digest_view.js";
import { jsonView } from "../parts/json_view.js";
import { begin, parsed, runView } from "../parts/run_view.js";
import { empty, failed, load } from "../parts/states.js";
import { table } from "../parts/table.js";
import { timeline } from "../parts/timeline.js";

const OUTCOMES = ["COMPLETED_WITH_TOOLS", "COMPLETED_CHAT_ONLY", "INTERRUPTED",
  ..."PREFLIGHT PROTOCOL_NO_TOOLS PROTOCOL_MALFORMED VALIDATION BUDGET_EXHAUSTED TIMEOUT CONTRACT_VIOLATION PROVIDER".split(" ").map((name) => `FAILED_${name}`)];
const DRAW_MS = 1500;
const LOOK_MS = 3000; // between two looks at a list that has running runs in it

const number = (title, cell) => ({title, cell, num: true, wide: title !== "Time"});
const COLUMNS = [
  {title: "Run", cell: (run) => h("code.nowrap", {title: run.run_id}, `…${run.run_id.slice(-10)}`)},
  {title: "Begun", cell: (run) => time(run.created_at)},
  {title: "Outcome", cell: (run) => badge(run.outcome ?? run.state, kindOf(run.outcome))},
  {title: "Model", cell: (run) => run.model},
  {title: "Tools", wide: true, cell: (run) => run.policy},
  {title: "Page", wide: true, cell: (run) => run.page ?? "–"},
  number("Inferences", (run) => count(run.inferences)), number("Calls", (run) => count(run.tool_calls)),
  number("Tokens", (run) => count(run.tokens)), number("Time", (run) => ms(run.elapsed_ms)),
];

const showList = async (page, {query, remember, session, signal, get}) => {
  const list = table({label: "Runs", columns: COLUMNS, href: (run) => `/runs/${run.run_id}`});
  const box = h("div");
  let [timer, isLong] = [0, false];
  const read = (after) => get("/v1/agent/runs", {...Object.fromEntries(query), after});

  const nothing = () => (query.size ? empty("No run fits", "Nothing matches these filters.", h("a", {href: "/runs"}, "Show all runs"))
    : empty("No runs yet", "A run is a task that a model works on with tools.", h("a.button.primary", {href: "/code"}, "Start one")));
  const follow = (next) => list.more(next && (async () => {
    isLong = true;
    const more = await read(next);
    list.add(more.data);
    follow(more.next);
  }));
  const look = async () => {
    clearTimeout(timer);
    const {data, next} = await read();
    if (isLong || signal.aborted) return;
    list.set(data, nothing());
    follow(next);
    if (data.some((run) => run.ended_at === null)) timer = setTimeout(() => look().catch(() => {}), LOOK_MS);
  };
  const change = ({target}) => {
    query = remember({[target.name]: target.value});
    isLong = false;
    draw();
  };
  const draw = () => load(box, async () => {
    await look();
    return list.element;
  }, 8);
  const filter = (name, title, entries) => field(title, entries
    ? h("select", {name, ".value": query.get(name) ?? "", on: {change}}, options([["", "all"], ...entries]))
    : h("input", {name, value: query.get(name) ?? "", on: {change}}));
  page.append(h(".filters", filter("outcome", "Outcome", OUTCOMES), filter("running", "State", [["true", "running"], ["false", "ended"]]),
    filter("model", "Model"), session.role === "admin" && filter("owner", "Owner")), box);
  await draw();
  return () => clearTimeout(timer);
};

// --- one run ---

const verdict = ({ok, entries, head, public_key: key, faults, notes}) => h("div", {class: `notice ${ok ? "ok" : "bad"}`}, h(".grow",
  h("p", h("b", ok ? "Whole" : "Not whole"), `: ${count(entries)} entries, head `, h("code", head)), key && dim("signed by ", h("code", key)),
  faults.map(({line, fault}) => h("p", line ? `line ${line}: ${fault}` : fault)), notes.map((note) => h("p.dim", note))));

const whole = (side) => side && {...side.entry, action: parsed(side.action), result: parsed(side.result), meta: parsed(side.meta)};

const again = ({identical, head, entries, divergence}) => {
  if (!divergence) {
    return h("div", {class: `notice ${identical ? "ok" : "warn"}`}, h("p.grow", h("b", identical ? "Identical" : "Unfinished"), `: ${count(entries)} entries, head `, h("code", head)));
  }
  const [recorded, now] = [whole(divergence.expected), whole(divergence.actual)];
  const side = (title, value) => h(".stack.tight", h("h3", title), value ? jsonView(value, {open: 3}) : dim("Nothing comes out here."));
  return [h("p.notice.bad", `Differs at entry ${divergence.seq} (${divergence.kind}): ${divergence.detail}`),
    h(".split", side("As recorded", recorded), side("As it comes out now", now)), recorded && now && h("details", h("summary", "Line by line"), diff(recorded, now))];
};

const goOn = (id, go) => {
  const problem = h("div");
  const submit = (event) => {
    event.preventDefault();
    begin({parent_run_id: id, task: new FormData(event.target).get("task")}).then((child) => go(`/code?run=${child}`), (error) => replace(problem, failed(error)));
  };
  return h("form.card", {on: {submit}}, field("Go on with this run", h("input", {name: "task", required: true, placeholder: "What to say to it now"}),
    "A new run with its history, its tools and its contract."), h(".bar", h("button", {type: "submit"}, "Go on")), problem);
};

const showRun = async (page, id, {go, signal, get}) => {
  const path = `/v1/agent/runs/${encodeURIComponent(id)}`;
  const [proof, after, line, body] = [h(".stack", {"aria-live": "polite"}), h("div"), timeline(id, signal), h(".stack")];
  const act = (label, work, kind) => button(label, () => {
    replace(proof);
    return load(proof, work, 2);
  }, kind);
  const verify = async () => {
    const report = await api.post(`${path}/verify`);
    line.mark(report);
    return verdict(report);
  };
  const download = (label, form) => h("a.button", {href: `${path}/transcript?format=${form}`, download: `${id}.${form}`}, label);
  const link = (run) => h("a", {href: `/runs/${run}`, class: "mono"}, run);
  const ended = () => {
    replace(after, goOn(id, go));
    return line.load();
  };
  page.append(body);
  await load(body, async () => {
    const [{task, run, contract}, {data: children}] = await Promise.all([get(path), get("/v1/agent/runs", {parent: id, limit: 20})]);
    const known = [["Task", h("pre.said", task)], ["Begun", time(run.created_at)], ["Model", `${run.model} (${run.profile})`], ["Goes on with", run.parent && link(run.parent)],
      ["Gone on with by", children.length > 0 && children.map((child) => h("p", link(child.run_id)))]];
    let shown = null;
    const isDrawn = new Promise((resolve) => { shown = resolve; });
    const onDigest = (digest) => {
      line.grow(view(digest).trail);
      if (!digest.outcome) shown();
    };
    const seen = runView(id, {signal, onDigest, onEnd: () => ended().then(shown), onChild: (child) => go(`/code?run=${child}`)});
    await Promise.race([isDrawn, new Promise((resolve) => { setTimeout(resolve, DRAW_MS); })]); // all at once rather than piece by piece
    return [facts(known), seen,
      h("section.card", h("header", h("h2", "Transcript"), act("Verify chain", verify, "primary"), act("Replay", async () => again(await api.post("/v1/agent/replay", {run_id: id}))),
        download("JSON Lines", "jsonl"), download("Zip with verifier", "zip")), proof, line.element),
      after, h("details.card", h("summary", "Contract"), jsonView(contract))];
  }, 8);
};

export default {
  title: "Runs",
  async show(page, ctx) {
    const {id} = ctx.params;
    page.append(h(".head", h("h1", id ? `Run …${id.slice(-10)}` : "Runs"), id ? h("a.button", {href: "/runs"}, "All runs") : h("a.button.primary", {href: "/code"}, "New run")));
    return id ? showRun(page, id, ctx) : showList(page, ctx);
  },
};
