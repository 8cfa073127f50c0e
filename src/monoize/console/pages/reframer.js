// Reframer: a request in; its findings at the line, its mask hints, its normalised form, and the call that it becomes.
import { button, h, options, replace } from "../core/dom.js";
import { api, withQuery } from "../core/api.js";
import { count } from "../core/format.js";
import { tabs } from "../parts/code_tabs.js";
import { jsonView } from "../parts/json_view.js";
import { lineAt, places, spanOf } from "../parts/spans.js";
import { failed } from "../parts/states.js";
import { chatModels, modelChoice, offer } from "../parts/wire_view.js";

const GOOD = JSON.stringify({
  schema_version: "1.0.0",
  request_id: "parcel-4711",
  created_at: "2026-03-01T09:30:00Z",
  channels: [{channel_id: "chat", role: "user"}],
  payload: {messages: [
    {id: "rules", role: "system", content: "You help people find their parcels."},
    {id: "ask", role: "user", content: "Where is parcel 4711?", protocol_tags: ["<segment:question>"]},
    {id: "found", role: "user", content: "In transit, it arrives on Tuesday.", protocol_tags: ["<tool:parcel_search>"]},
  ]},
  constraints: {routing: {tool_budget: {total: 4, per_tool: [{tool_name: "parcel_search", budget: 2}]}, retrieval: {precision_threshold: 0.8, sources: []}}},
}, null, 2);

const EXAMPLES = {
  "A good request": GOOD,
  "A bad one": GOOD.replace("T09:30:00Z", "").replace("system", "reader").replace('arch>"', 'arch>", "<role:user>"').replace('"budget": 2', '"budget": 99'),
};

const finding = (one, text, found, goTo) => {
  const [from, to] = spanOf(text, one, found);
  const {line, column, excerpt, caret} = lineAt(text, from);
  const word = one.code ? "warning" : "error";
  return h("li", button([
    h("span.bar", h("b", {class: one.code ? "warn" : "bad"}, word), `line ${line}, column ${column}`, h("code.dim", one.code ?? one.error_code)),
    h("span", one.message), h("code.dim", one.field_path),
    h("pre", `${excerpt}\n${" ".repeat(caret)}${"^".repeat(Math.max(1, Math.min(to - from, excerpt.length - caret)))}`),
  ], () => goTo(from, to, line), "finding"));
};

const findings = (all, text, goTo, hasMore) => {
  const found = places(text);
  return all.length > 0 && h("section.card", h("h2", `Findings: ${count(all.length)}${hasMore ? ", and more" : ""}`), h("ol.stack", all.map((one) => finding(one, text, found, goTo))));
};

const maskHints = ({mask_hints: hints, normalized: {payload: {messages}}, tokenizer, counts}) => {
  const told = h(".code", {"aria-live": "polite"}, "Point at a message, or go to it with the Tab key, to see its hint.");
  const tell = (hint) => () => replace(told, jsonView(hint));
  return h(".stack", h("p.dim", `${count(counts.messages)} messages, ${count(counts.tokens)} tokens of ${tokenizer}; a colour is a segment.`),
    h(".hints", hints.map((hint, index) => h("span", {class: `series-${[0, 3, 2, 4][hint.segment % 4]}`, tabindex: 0, role: "note", on: {mouseenter: tell(hint), focus: tell(hint)}},
      h("small", `${hint.role} ${hint.segment_id ?? hint.segment}+${hint.position}`), hint.tokenized ? messages[index].content.value : "(no text)"))), told);
};

const call = ({protocol, path, body, dropped, added}, model, go) => {
  const toChat = () => {
    const {settings} = JSON.parse(sessionStorage.getItem("chat") ?? "{}");
    sessionStorage.setItem("chat", JSON.stringify({settings: {...settings, protocol, model}, turns: [{role: "user", parts: [], raw: body}]}));
    go("/chat");
  };
  return h(".stack", h(".bar", h("code", `POST ${path}`), button("Send to chat", toChat, "primary small")),
    [...dropped, ...added].map(({field_path: field, reason}) => h("p", h("code", field), ` ${reason}`)), jsonView(body, {open: 4}));
};

let chosen = 0; // the tab that somebody looks at stays, whatever is reframed

const results = (reply, model, go) => h("section.card", tabs([
  {name: "Mask hints", draw: () => maskHints(reply)},
  {name: "Normalised", draw: () => jsonView(reply.normalized, {open: 3})},
  ...(reply.into ? [{name: `As ${reply.into.protocol}`, draw: () => call(reply.into, model, go)}] : []),
], {label: "Result", chosen: reply.into ? chosen : Math.min(chosen, 1), onChange: (index) => { chosen = index; }}));

const show = async (page, ctx) => {
  const out = h(".stack", {"aria-live": "polite"});
  const area = h("textarea.mono", {rows: 28, wrap: "off", spellcheck: "false", "aria-label": "Request", ".value": GOOD});
  const example = h("select", {"aria-label": "Example"}, options(Object.keys(EXAMPLES)));
  const lenient = h("input", {type: "checkbox"});
  const into = h("select", options([["", "no call"], "chat_completion", "responses", "messages", "gemini"]));
  const [model, models] = modelChoice({"aria-label": "Model"});
  const goTo = (from, to, line) => {
    area.focus();
    area.setSelectionRange(from, to);
    area.scrollTop = (line - 4) * (area.scrollHeight / area.value.split("\n").length);
  };
  const check = async () => {
    const text = area.value;
    const wanted = into.value && model.value;
    try {
      const response = await api.raw(withQuery("/v1/reframe", {mode: lenient.checked ? "lenient" : "", into: wanted && into.value, model: wanted}), {method: "POST", body: text, headers: {"content-type": "application/json"}, signal: ctx.signal});
      const reply = await response.json();
      replace(out, h("p.notice.ok", `${reply.request_id} is good.`), findings(reply.warnings, text, goTo, reply.has_more_warnings), results(reply, wanted, ctx.go));
    } catch (error) {
      const {error_code: code, details} = error.body ?? {};
      replace(out, code ? findings([error.body, ...details.diagnostics, ...(details.warnings ?? [])], text, goTo, details.has_more) : failed(error, check));
    }
  };
  let due;
  area.addEventListener("input", () => {
    clearTimeout(due);
    due = setTimeout(check, 400);
  });
  const head = h(".head", {on: {change: check}}, h("h1", "Reframer"), example, h("label.check", lenient, "Lenient"), h("label.check", "Into", into), model, models);
  example.addEventListener("change", () => { area.value = EXAMPLES[example.value]; });
  page.append(head, h(".split", area, out));
  const [known] = await Promise.all([chatModels(ctx), check()]);
  offer(models, known);
  model.value ||= known[0]?.id ?? "";
  return () => clearTimeout(due);
};

export default {title: "Reframer", show};
