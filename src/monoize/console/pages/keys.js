// Keys: found, made, limited, given a new secret, ended. Everybody sees their own, admins all of them.

import { badge, button, facts, field, h, options } from "../core/dom.js";
import { api } from "../core/api.js";
import { day, time, usd } from "../core/format.js";
import { form, sheet, sure } from "../parts/dialog.js";
import { complain, copyButton, empty, load } from "../parts/states.js";
import { table } from "../parts/table.js";

const listed = [(words) => words.join(", "), (text) => text.split(",").map((word) => word.trim()).filter(Boolean)];
const counted = [String, Number];
const dollars = [(nano) => String(nano / 1e9), (text) => Math.round(text * 1e9)];
// Of a policy: label, [to text, from text], hint
const LIMITS = {
  models: ["Models", listed, "gpt-*, claude-*; empty: every model"],
  addresses: ["Addresses", listed, "10.0.0.0/8; empty: from everywhere"],
  requests_per_minute: ["Requests a minute", counted],
  tokens_per_minute: ["Tokens a minute", counted],
  day: ["USD a day", dollars],
  month: ["USD a month", dollars],
  total: ["USD in all", dollars],
};
const WINDOWS = {day: "Today", month: "This month", total: "Ever"};

const limits = (policy) => Object.entries(LIMITS).map(([name, [label, [text], hint]]) => {
  const value = policy?.[name] ?? policy?.budgets[name] ?? null;
  return {name, label, hint, text: value === null ? "" : text(value)};
});

const inWords = (policy) => limits(policy).filter(({text}) => text).map(({label, text}) => `${label}: ${text}`).join("; ") || "everything";

const state = ({enabled, expires_at: until}) => {
  const [kind, word] = !enabled ? ["", "off"] : until && until <= Date.now() ? ["warn", "expired"] : ["ok", "on"];
  return badge(word, kind);
};

const input = (name, type, value, required) => h("input", {name, type, step: "any", required, ".value": value ?? ""});
// What such an input takes: the local time, without a zone.
const local = (at) => at && new Date(at - new Date(at).getTimezoneOffset() * 60000).toISOString().slice(0, 16);

const fields = (key) => [
  field("Name", input("name", "text", key?.name, true)),
  field("Ends", input("expires_at", "datetime-local", local(key?.expires_at)), "empty: never"),
  h(".grid", {style: {"--min": "150px"}}, limits(key?.policy).map(({name, label, hint, text}) => field(label, input(name, hint ? "text" : "number", text), hint))),
];

const read = (data) => {
  const given = (name, change) => (data.get(name).trim() ? change(data.get(name)) : null);
  const {day: daily, month, total, ...policy} = Object.fromEntries(Object.entries(LIMITS).map(([name, [, [, value]]]) => [name, given(name, value)]));
  return {name: data.get("name"), expires_at: given("expires_at", (text) => new Date(text).getTime()), policy: {...policy, budgets: {day: daily, month, total}}};
};

const showSecret = ({name, key}) => sheet({title: `The key ${name}`, body: [
  h("p", "This is the only time that it is shown. Keep it where your program finds it."), h("pre.code", key), copyButton(() => key, "Copy the key")]});

const create = async (ctx, owners) => {
  const whose = owners.size > 0 && field("User", h("select", {name: "user_id", ".value": ctx.query.get("user") ?? ctx.session.user_id ?? [...owners.keys()][0]}, options([...owners])));
  const submit = (data) => api.post("/api/keys", {...read(data), user_id: data.get("user_id")});
  const made = await form({title: "New key", body: [whose, fields()], action: "Make the key", submit, width: "560px"});
  if (!made) return;
  showSecret(made);
  ctx.reload();
};

const bars = ({spend, policy}) => h(".grid", Object.entries(WINDOWS).map(([name, label]) => {
  const {spent, reserved} = spend[name];
  const budget = policy.budgets[name];
  return h(".stat", h("span.dim", label), h("b", usd(spent)), budget !== null && h(".timing", {style: {"--share": String(Math.min(1, (spent + reserved) / (budget || 1)))}}),
    h("span.dim.small", budget === null ? "no budget" : `of ${usd(budget)}`, reserved > 0 && `, ${usd(reserved)} reserved`));
}));

const showOne = async (page, ctx) => {
  const path = `/api/keys/${encodeURIComponent(ctx.params.id)}`;
  const box = h(".stack");
  page.append(h(".head", h("h1", "Key"), h("a", {href: "/keys"}, "All keys")), box);
  await load(box, async () => {
    const key = await ctx.get(path);
    const edit = async () => await form({title: `Change ${key.name}`, body: fields(key), action: "Save", submit: (data) => api.patch(path, read(data)), width: "560px"}) && ctx.reload();
    const known = {Key: key.hint || key.id, May: inWords(key.policy), Ends: key.expires_at ? time(key.expires_at, day) : "never", "Last used": time(key.last_used_at)};
    return [h(".card", h("header", h("h2", key.name), state(key)), facts(Object.entries(known)),
      key.source === "file" ? h("p.dim", "It stands in the config file: change it there.") : h(".bar", button("Change", edit),
        button(key.enabled ? "Turn off" : "Turn on", () => api.patch(path, {enabled: !key.enabled}).then(ctx.reload, complain)),
        button("New secret", () => sure({title: "Give it a new secret?", text: "The old one ends at once: whatever still uses it is refused.", action: "New secret"}, async () => showSecret(await api.post(`${path}/rotate`)))),
        button("Revoke", () => sure({title: `Revoke ${key.name}?`, text: "It ends at once and cannot be had back. The log keeps what it did.", action: "Revoke"}, async () => ctx.go(await api.del(path) && "/keys")), "danger"))),
    h(".card", h("header", h("h2", "Spent"), h("a", {href: `/requests?key_id=${encodeURIComponent(key.id)}`}, "Its requests")), bars(key))];
  });
};

const showAll = async (page, ctx) => {
  const box = h("div");
  const owners = new Map();
  const make = () => button("New key", () => create(ctx, owners), "primary");
  const search = h("input", {type: "search", placeholder: "Part of the name, or how the key begins", "aria-label": "Find a key", maxlength: "256", ".value": ctx.query.get("search") ?? ""});
  page.append(h(".head", h("h1", "Keys"), make()), search, box);
  await load(box, async () => {
    if (ctx.session.role === "admin") for (const {id, username} of (await ctx.get("/api/users", {limit: 1000})).data) owners.set(id, username);
    const list = table({label: "Keys", href: ({id}) => `/keys/${encodeURIComponent(id)}`, columns: [
      {title: "Name", cell: (key) => h("span.nowrap", key.name)},
      {title: "User", cell: (key) => owners.get(key.user_id) ?? h("span.dim", key.user_id ? ctx.session.username : "config file")},
      {title: "Key", cell: (key) => h("span.mono.nowrap", key.hint), wide: true},
      {title: "State", cell: state},
      {title: "May", cell: (key) => inWords(key.policy), wide: true},
      {title: "Last used", cell: (key) => time(key.last_used_at), num: true},
    ]});
    const fill = () => list.pages((after) => ctx.get("/api/keys", {limit: 100, search: search.value.trim(), user_id: ctx.query.get("user"), after}),
      () => (search.value.trim() ? empty("No key fits") : empty("No keys yet", "Make one for each program: each can be limited and ended by itself.", make())));
    search.oninput = () => {
      ctx.remember({search: search.value});
      fill().catch(complain);
    };
    await fill();
    return list.element;
  }, 8);
};

export default {title: "Keys", show: (page, ctx) => (ctx.params.id ? showOne : showAll)(page, ctx)};
