// Costs: what was spent, by key, user, model, provider or day.

import { choices, dim, h, options, replace } from "../core/dom.js";
import { withQuery } from "../core/api.js";
import { count, percent, short, usd } from "../core/format.js";
import { chart } from "../parts/chart.js";
import { empty, load } from "../parts/states.js";
import { table } from "../parts/table.js";

const DAY = 86400000;
const RANGES = {7: "7 days", 30: "30 days", 90: "90 days", 365: "a year"};
const SHOWN = 4; // groups with a colour of their own; the others are one
const TONES = [0, 3, 2, 4, 1];
const FIELDS = ["calls", "errors", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "charge_usd"];
// What a row is called, and the filter of the requests that it stands for.
const GROUPS = {
  key: [(row) => row.key_name ?? row.key_id, (row) => ({key_id: row.key_id})],
  user: [(row) => row.username ?? row.user_id, (row) => ({username: row.username})],
  model: [(row) => row.model, (row) => ({model: row.model})],
  provider: [(row) => row.provider, (row) => ({provider: row.provider})],
  day: [(row) => row.day, (row) => ({since: Date.parse(row.day), until: Date.parse(row.day) + DAY})],
};
const asDay = (at) => new Date(at).toISOString().slice(0, 10);
const inWords = new Intl.DateTimeFormat("en-GB", {day: "numeric", month: "short", timeZone: "UTC"});
const share = (part, whole) => (whole ? part / whole : 0);
const number = (title, cell, wide) => ({title, cell, num: true, wide});

const columnsOf = (by, total) => [
  {title: by.charAt(0).toUpperCase() + by.slice(1), cell: (row) => h("span.nowrap", GROUPS[by][0](row) ?? "(none)")},
  number("Cost", (row) => usd(row.charge)),
  number("Share", (row) => [percent(share(row.charge, total.charge)), h(".share", {style: {"--share": share(row.charge, total.charge)}})]),
  number("Calls", (row) => count(row.calls)), number("Errors", (row) => count(row.errors)),
  number("Input", (row) => short(row.input_tokens)), number("cached", (row) => short(row.cached_tokens), true),
  number("Output", (row) => short(row.output_tokens)), number("reasoning", (row) => short(row.reasoning_tokens), true),
];

const titleOf = (by) => (by === "day" ? "Cost by day" : `Cost by day and ${by}`);

const drawn = (by, rows, top, since) => {
  const days = Array.from({length: Math.floor((Date.now() - since) / DAY) + 1}, (_, at) => since + at * DAY);
  const nameOf = (row) => (by === "day" ? "cost" : GROUPS[by][0](row) ?? "(none)");
  const names = [...new Set(top.slice(0, by === "day" ? 1 : SHOWN).map(nameOf))];
  const sums = new Map();
  for (const row of rows) {
    const key = `${row.day} ${names.includes(nameOf(row)) ? nameOf(row) : "others"}`;
    sums.set(key, (sums.get(key) ?? 0) + row.charge);
  }
  if (by !== "day" && top.length > SHOWN) names.push("others");
  return chart({label: titleOf(by), height: 180, format: usd, x: days, at: (day) => inWords.format(day),
    series: names.map((name, at) => ({name, tone: TONES[at], values: days.map((day) => sums.get(`${asDay(day)} ${name}`) ?? 0)}))});
};

// A cell that a spreadsheet would run as a formula begins with a '.
const cell = (value) => `"${String(value ?? "").replace(/^(?=[=+\-@\t\r\n])/, "'").replaceAll('"', '""')}"`;

const asCsv = (by, rows) => new Blob([[by, ...FIELDS].map(cell), ...rows.map((row) => [GROUPS[by][0](row), ...FIELDS.map((name) => row[name])].map(cell))].map((line) => `${line.join(",")}\r\n`), {type: "text/csv"});

const stat = (name, value, hint) => h(".stat", h("span.dim", name), h("b", value), dim(hint));

const totals = (total, days) => h(".card.grid", {style: {"--min": "130px"}},
  stat("Cost", usd(total.charge), `${usd(total.charge / days)} a day`), stat("Calls", short(total.calls), `${count(total.errors)} failed`),
  stat("Input tokens", short(total.input_tokens), `${percent(share(total.cached_tokens, total.input_tokens))} cached`),
  stat("Output tokens", short(total.output_tokens), `${percent(share(total.reasoning_tokens, total.output_tokens))} reasoning`));

const show = async (page, ctx) => {
  const box = h(".tall");
  const csv = h("a.button.small", {hidden: true}, "CSV");
  const bys = Object.keys(GROUPS).filter((name) => name !== "user" || ctx.session.role === "admin");
  let by = bys.includes(ctx.query.get("by")) ? ctx.query.get("by") : "model";
  let days = Number(ctx.query.get("days")) in RANGES ? Number(ctx.query.get("days")) : 30;

  const read = async () => {
    const since = Date.parse(asDay(Date.now())) - (days - 1) * DAY;
    const ask = (dimensions) => ctx.get("/api/usage", {by: dimensions, since, limit: 1000});
    const [sums, daily] = await Promise.all([ask(by), by !== "day" && ask(`day,${by}`)]);
    if (!sums.total.calls) return empty("Nothing was spent in this time", "Calls appear here with their cost as they end.", h("a.button", {href: "/chat"}, "Try a model"));
    csv.hidden = false;
    csv.href = URL.createObjectURL(asCsv(by, sums.rows));
    csv.download = `costs-by-${by}.csv`;
    const list = table({label: `Costs by ${by}`, columns: columnsOf(by, sums.total), href: (row) => GROUPS[by][0](row) && withQuery("/requests", {since, ...GROUPS[by][1](row)})});
    list.set(sums.rows);
    return h(".stack", totals(sums.total, days),
      sums.total.unpriced > 0 && h("p.notice.warn", `${count(sums.total.unpriced)} calls cost nothing because nobody knows a price for their model.`),
      h("section.card", h("h2", titleOf(by)), drawn(by, (daily || sums).rows, sums.rows, since)), list.element,
      sums.truncated && h("p.dim", "Only the dearest are listed; the sums are over all."));
  };
  const draw = () => load(replace(box), read, 10);
  const choose = (name) => {
    by = name;
    ctx.remember({by});
    draw();
  };
  const range = h("select", {"aria-label": "Time", ".value": days, on: {change: (event) => {
    days = Number(event.target.value);
    ctx.remember({days});
    draw();
  }}}, options(Object.entries(RANGES)));
  page.append(h(".head", h("h1", "Costs"), choices("Costs by", bys, by, choose), range, csv), box);
  draw();
};

export default {title: "Costs", show};
