// Requests: the log as it grows, filtered by the address; one request with all that is known of it.

import { button, facts, field, h, options, replace } from "../core/dom.js";
import { api, withQuery } from "../core/api.js";
import { count, ms, time, usd } from "../core/format.js";
import { jsonView } from "../parts/json_view.js";
import { status } from "../parts/lights.js";
import { copyButton, empty, load } from "../parts/states.js";
import { table } from "../parts/table.js";

const PAGE = 50;
const HOUR = 3600000;
const STATUSES = ["success", "error", "cancelled", "interrupted", "pending"];
const RANGES = {1: "last hour", 24: "last 24 hours", 168: "last 7 days", 720: "last 30 days"}; // by hours
const TYPED = {model: "gpt-* or a name", provider: "", username: "", text: "in the error or a model"};
const OTHERS = ["key_id", "user_id", "channel", "protocol", "operation", "request_id", "errors_only", "since", "until"];

const filtersOf = (query) => {
  const found = Object.fromEntries(["status", ...Object.keys(TYPED), ...OTHERS].map((name) => [name, query.get(name)]).filter(([, value]) => value));
  return query.get("hours") ? {...found, since: Date.now() - query.get("hours") * HOUR} : found;
};

const isNamed = (patterns, name = "") => patterns.split(",").map((one) => one.trim()).some((one) => (one.endsWith("*") ? name.startsWith(one.slice(0, -1)) : one === name));

// The stream knows no filters: its rows are held against those of the page.
const fits = (row, {model, text, since = 0, until = Infinity, errors_only: failed, ...exact}) => Object.entries(exact).every(([name, value]) => String(row[name]) === value)
  && (!model || isNamed(model, row.requested_model ?? "")) && (!failed || row.status === "error" || row.status === "interrupted")
  && (!text || [row.error_message, row.error_code, row.requested_model, row.upstream_model].join("\n").toLowerCase().includes(text.toLowerCase()))
  && row.created_at >= since && row.created_at < until;

const COLUMNS = [
  {title: "Time", cell: (row) => time(row.created_at)},
  {title: "Status", cell: (row) => status(row.status)},
  {title: "Model", cell: (row) => [row.requested_model ?? "–", row.error_message && h(".small.bad.clip.error-line", {title: row.error_message}, row.error_message)]},
  {title: "Served by", cell: (row) => (row.provider ? `${row.provider}/${row.channel}` : "–"), wide: true},
  {title: "Called by", cell: (row) => h("span.nowrap", [row.username, row.key_name ?? row.key_id].filter(Boolean).join(" / ") || "–"), wide: true},
  {title: "Tokens", cell: (row) => (row.output_tokens === null ? "–" : `${count(row.input_tokens)} → ${count(row.output_tokens)}`), num: true},
  {title: "Cost", cell: (row) => usd(row.charge), num: true},
  {title: "First byte", cell: (row) => ms(row.first_byte_ms), num: true, wide: true},
  {title: "Total", cell: (row) => ms(row.duration_ms), num: true},
];

const pathOf = (row) => `/requests/${encodeURIComponent(row.request_id)}`;

const showList = (page, ctx) => {
  let filters = filtersOf(ctx.query);
  let waiting = [];
  const list = table({label: "Requests", columns: COLUMNS, href: pathOf});
  const box = h(".tall");
  const found = h("span.dim", {style: {"min-width": "15ch"}}); // so that nothing moves when it comes
  const chips = h(".bar");
  const csv = h("a.button.small", {download: "requests.csv"}, "CSV");
  const live = button("Live", () => live.setAttribute("aria-pressed", String(!isLive())), "small", {"aria-pressed": "true"});
  const isLive = () => live.getAttribute("aria-pressed") === "true";
  const shown = () => box.querySelectorAll("tr[data-href]").length;
  const read = (before) => ctx.get("/api/logs", {...filters, before, limit: PAGE});

  const none = () => (Object.keys(filters).length ? empty("No request fits", "Take a filter away, or wait: rows appear here as requests end.", h("a.button", {href: "/requests"}, "Show all"))
    : empty("No requests yet", "Every call of a model becomes a row here.", h("a.button.primary", {href: "/chat"}, "Try a model")));
  const onward = (next) => list.more(next !== null && (async () => {
    const more = await read(next);
    list.add(more.rows);
    onward(more.next);
  }));
  const drawCount = async () => {
    const all = await ctx.get("/api/logs/count", filters);
    found.textContent = `${count(all.count)}${all.more ? "+" : ""} ${all.count === 1 ? "request" : "requests"}`;
  };
  const draw = () => load(box, async () => {
    waiting = [];
    drawCount().catch(() => replace(found));
    let got = await read();
    // A search looks at a bounded number of rows a page: an empty one need not be the end.
    while (!got.rows.length && got.next !== null) got = await read(got.next);
    list.set(got.rows, none());
    onward(got.next);
    return list.element;
  }, 12);
  const change = (changes) => {
    filters = filtersOf(ctx.remember(changes));
    drawChips();
    draw();
  };
  const drawChips = () => {
    csv.href = withQuery("/api/logs.csv", filters);
    const query = ctx.remember({});
    replace(chips, OTHERS.filter((name) => query.has(name)).map((name) => button(`${name}: ${query.get(name)} ×`, () => change({[name]: null}), "small", {"aria-label": `Remove the filter ${name}`})));
    chips.hidden = !chips.childElementCount;
  };
  const hears = (name) => ({".value": ctx.query.get(name) ?? "", on: {change: (event) => change({[name]: event.target.value.trim()})}});
  const choose = (label, name, any, entries) => field(label, h("select", hears(name), options([["", any], ...entries])));
  const type = ([name, hint]) => field(name === "username" ? "User" : name.charAt(0).toUpperCase() + name.slice(1), h("input", {type: "search", placeholder: hint, ...hears(name)}));

  // Under a flood, or when many are shown, the page is read anew rather than drawn row by row.
  const flush = () => {
    if (document.hidden || !isLive() || !waiting.length) return;
    if (waiting.length > PAGE || !shown() || shown() > 8 * PAGE) draw();
    else waiting.forEach(list.prepend);
    waiting = [];
  };
  const watch = async () => {
    while (!ctx.signal.aborted) {
      try {
        for await (const {data} of api.events("/api/logs/stream", {signal: ctx.signal, quiet: true})) {
          const row = JSON.parse(data);
          if (isLive() && fits(row, filters)) waiting.push(row);
        }
      } catch {
        // Whatever ended it: the next turn finds out whether the gateway is back.
      }
      await new Promise((resolve) => { setTimeout(resolve, 3000); });
    }
  };
  page.append(h(".head", h("h1", "Requests"), found, live, csv),
    h(".filters", {role: "search"}, choose("Status", "status", "any", STATUSES), choose("When", "hours", "any time", Object.entries(RANGES)), Object.entries(TYPED).map(type)), chips, box);
  drawChips();
  draw();
  watch();
  const timer = setInterval(flush, 500);
  return () => clearInterval(timer);
};

const card = (title, rows) => h("section.card", h("h2", title), facts(rows));

const link = (name, value, text = value) => value && h("a", {href: withQuery("/requests", {[name]: value})}, text);

// Where the time went: until the first byte, and from it to the end.
const timing = (row) => h(".timing", {role: "img", "aria-label": `${ms(row.first_byte_ms)} of ${ms(row.duration_ms)} until the first byte`, style: {"--share": (row.first_byte_ms ?? row.duration_ms) / row.duration_ms}});

const attempts = (rows) => {
  const list = table({label: "Attempts", columns: [{title: "Attempt", cell: (one) => rows.indexOf(one) + 1}, {title: "Provider", cell: (one) => one.provider}, {title: "Channel", cell: (one) => one.channel},
    {title: "Status", cell: (one) => one.status ?? "–"}, {title: "What it said", cell: (one) => h("div", {style: {"min-width": "24ch"}}, one.message ?? one.error ?? "–")}]});
  list.set(rows);
  return list.element;
};

const capture = (row, ctx) => {
  const box = h("div");
  const show = () => load(box, async () => jsonView((await ctx.get(`/api/logs/${encodeURIComponent(row.request_id)}/capture`)).body, {open: 3}));
  return h("section.card", h("header", h("h2", "Bodies"), button("Show what was kept", show, "small")),
    h("p.dim", "Kept where the key's policy has capture: all or abnormal; secrets are redacted."), box);
};

const lost = (losses) => (losses.length ? h("ul.stack.tight", losses.map((path) => h("li", h("code", path)))) : h("p.dim", "Nothing: all that was said reached the other side."));

const detail = (row, ctx) => h(".stack",
  row.error_message && h(".notice.bad", h("p.grow", row.error_message), h("code", row.error_code)),
  h(".grid", {style: {"--min": "230px"}},
    card("Outcome", [["Status", status(row.status)], ["HTTP status", row.http_status], ["Began", time(row.created_at)], ["Time taken", ms(row.duration_ms)], ["First byte", ms(row.first_byte_ms)], ["Gateway's part", ms(row.overhead_ms)], ["", row.duration_ms && timing(row)]]),
    card("Call", [["Model", link("model", row.requested_model)], ["Upstream model", row.upstream_model], ["Provider", link("provider", row.provider)], ["Channel", link("channel", row.channel)], ["Protocol", row.protocol], ["Operation", row.operation], ["Stream", row.is_stream ? "yes" : "no"], ["Effort", row.effort]]),
    card("Caller", [["Key", link("key_id", row.key_id, row.key_name ?? row.key_id)], ["User", link("username", row.username)], ["Address", row.address], ["Request id", [h("code", row.request_id), copyButton(() => row.request_id)]]]),
    card("Charge", [["Cost", row.charge_usd && `$${row.charge_usd}`], ["", row.unpriced && "nobody knows a price for this model"], ["", row.estimated && "tokens were estimated"], ["Multiplier", row.multiplier],
      ...Object.entries(row.usage ?? {}).map(([name, value]) => [name.replaceAll("_", " "), typeof value === "number" ? count(value) : JSON.stringify(value)])])),
  row.attempts?.length > 0 && attempts(row.attempts),
  h("section.card", h("h2", "Lost in translation"), Array.isArray(row.losses ?? []) ? lost(row.losses ?? []) : jsonView(row.losses)),
  capture(row, ctx),
  h("details.card", h("summary", "The row as JSON"), jsonView(row)));

const showOne = (page, ctx) => {
  const box = h("div");
  let timer = 0;
  const draw = () => load(box, async () => {
    const row = await ctx.get(`/api/logs/${encodeURIComponent(ctx.params.id)}`);
    if (row.status === "pending") timer = setTimeout(draw, 2000);
    return detail(row, ctx);
  }, 10);
  page.append(h(".head", h("h1", "Request"), h("a", {href: "/requests"}, "All requests")), box);
  draw();
  return () => clearTimeout(timer);
};

export default {title: "Requests", show: async (page, ctx) => (ctx.params.id ? showOne : showList)(page, ctx)};
