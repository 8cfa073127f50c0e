// Overview: how the gateway is and what needs attention; before the first call, what to do first.

import { choices, dim, h, replace } from "../core/dom.js";
import { count, ms, percent, short, usd } from "../core/format.js";
import { chart } from "../parts/chart.js";
import { codeTabs } from "../parts/code_tabs.js";
import { channelLight, channelState, light } from "../parts/lights.js";
import { load } from "../parts/states.js";
import { table } from "../parts/table.js";
import { chatModels } from "../parts/wire_view.js";

const RANGES = ["1h", "24h", "7d", "30d"];
const REFRESH = 30000;
const LEVELS = {error: "bad", warning: "warn", notice: "off"};
const moments = (range) => new Intl.DateTimeFormat("en-GB", {...(range.endsWith("h") ? {} : {day: "numeric", month: "short"}), ...(range === "30d" ? {timeZone: "UTC"} : {hour: "2-digit", minute: "2-digit"})});

// Up is not good or bad by itself: only for errors and times the direction has a colour. Against next to nothing it says nothing.
const change = (share, isBad) => Math.abs(share ?? 0) >= 0.005 && share < 10
  && h("span", {class: `small ${!isBad || Math.abs(share) < 0.1 ? "dim" : share > 0 ? "bad" : "ok"}`, title: "against the time before"}, `${share > 0 ? "▲" : "▼"} ${percent(Math.abs(share))}`);

const panels = ({range, buckets, total, change: by}) => {
  const x = buckets.map((one) => one.at);
  const form = moments(range);
  const values = (name) => buckets.map((one) => one[name]);
  const panel = (title, value, difference, hint, series, format = short, kind) => h("section.card", h("header", h("h2", title), dim(hint)), h(".row", h("b.big", value), difference),
    chart({label: `${title} over time`, x, kind, format, at: (at) => form.format(at), series: series.map(([name, field, tone]) => ({name, values: values(field), tone}))}));
  const times = (title, name) => panel(title, ms(total[`${name}_p50_ms`]), change(by[`${name}_p50_ms`], true), `95 %: ${ms(total[`${name}_p95_ms`])}`,
    [["half are below", `${name}_p50_ms`, 0], ["95 % are below", `${name}_p95_ms`, 4]], ms, "line");
  return h(".grid", {style: {"--min": "320px"}},
    panel("Requests", short(total.calls), change(by.calls), "", [["requests", "calls", 0]]),
    panel("Errors", count(total.errors), change(by.errors, true), total.calls ? `${percent(total.errors / total.calls)} of all` : "", [["errors", "errors", 1]]),
    times("Time to first byte", "first_byte"), times("Time taken", "latency"),
    panel("Tokens", short(total.input_tokens + total.output_tokens), change(by.output_tokens), "", [["input", "input_tokens", 0], ["output", "output_tokens", 3]]),
    panel("Cost", usd(total.charge), change(by.charge), "", [["cost", "charge", 2]], usd));
};

const attention = (rows) => h("section.card", h("h2", "Needs attention"), rows.length
  ? h("ul.lines", rows.map((one) => h("li", light(one.level, LEVELS[one.level]), h("span.grow", one.sentence), one.link && h("a", {href: one.link, "aria-label": `Look: ${one.sentence}`}, "Look"))))
  : h("p.light.ok", "Nothing: all is well."));

const lights = (channels) => h("section.card", h("header", h("h2", "Channels"), h("a.for-admins", {href: "/providers"}, "Providers")),
  h("ul.lines", channels.map((row) => h("li", channelLight(row), h("span.name.clip", `${row.provider}/${row.channel} ${row.model ?? ""}`), h("span.grow.dim.small", channelState(row).reason)))));

const top = (title, rows, name, filter, id) => {
  const list = table({label: title, href: (row) => row[id] && `/requests?${filter}=${encodeURIComponent(row[id])}`, columns: [{title, cell: (row) => row[name] ?? row[id] ?? "–"}, {title: "Calls", cell: (row) => short(row.calls), num: true},
    {title: "Errors", cell: (row) => count(row.errors), num: true}, {title: "Tokens", cell: (row) => short(row.input_tokens + row.output_tokens), num: true}, {title: "Cost", cell: (row) => usd(row.charge), num: true}]});
  list.set(rows);
  return rows.length > 0 && list.element;
};

const firstCall = async (model) => {
  const {programs} = await import("../parts/wire_code.js");
  return codeTabs(programs("chat_completion", {model, turns: [{role: "user", parts: [{kind: "text", text: "Hello!"}]}]}, location.origin), {label: "The first call as code"});
};

const keyFor = ({how}, keys) => {
  if (how && how !== "local") return "The key is one of yours.";
  return keys.length ? "The key is the one that the gateway printed when it started." : "A gateway without keys takes any key on this machine.";
};

const welcome = async (ctx, channels) => {
  const [models, {data: keys}] = await Promise.all([chatModels(ctx), ctx.get("/api/keys", {limit: 1}).catch(() => ({data: []}))]); // without a store there are none
  const model = models[0]?.id;
  const step = (title, text, ...more) => h("li.card", h("h2", title), h("p.dim", text), more);
  const link = (href, text, kind = "") => h("a", {class: `button ${kind}`, href}, text);
  return h(".stack", h("p", "The gateway is running, and there is no call to show yet. Three steps from here:"), h("ol.stack",
    model ? step("1. Talk to a model", models.length === 1 ? `${model} answers here.` : `${count(models.length)} models answer here, ${model} among them.`, h(".bar", link(`/chat?model=${encodeURIComponent(model)}`, "Open the chat", "primary")))
      : step("1. Add a provider", "No model answers here yet: a provider brings its models along.", h(".bar", link("/providers", "Add a provider", "primary"))),
    step("2. Call it from a program", "Every SDK of OpenAI, Anthropic and Google works: only its address changes. " + keyFor(ctx.session, keys), await firstCall(model ?? "a-model")),
    step("3. Make it yours", "A key for each program, rules for what goes through. This page fills itself.", h(".bar", link("/providers", "Providers", "for-admins"), link("/keys", "Keys"), link("/transforms", "Transforms")))),
  channels.length > 0 && lights(channels));
};

const show = async (page, ctx) => {
  const box = h(".tall");
  let range = RANGES.includes(ctx.query.get("range")) ? ctx.query.get("range") : "24h";
  const drawn = async () => {
    const [found, {channels}] = await Promise.all([ctx.get("/api/overview", {range}), ctx.get("/api/health/channels")]);
    if (!found.total.calls && !found.before.calls && !(await ctx.get("/api/logs", {limit: 1})).rows.length) return welcome(ctx, channels);
    return h(".stack", attention(found.attention), panels(found), h(".split", lights(channels),
      h(".stack", top("Models", found.models, "model", "model", "model"), top("Keys", found.keys, "key_name", "key_id", "key_id"))));
  };
  const draw = () => load(box, drawn, 14);
  // What somebody is busy with (a focused chart, a selection) is not drawn away.
  const refresh = async () => {
    if (document.hidden || box.contains(document.activeElement) || String(getSelection())) return;
    const fresh = await drawn().catch(() => null);
    if (fresh) replace(box, fresh);
  };
  const choose = (name) => {
    range = name;
    ctx.remember({range});
    draw();
  };
  page.append(h(".head", h("h1", "Overview"), choices("Time", RANGES, range, choose)), box);
  draw();
  const timer = setInterval(refresh, REFRESH);
  return () => clearInterval(timer);
};

export default {title: "Overview", show};
