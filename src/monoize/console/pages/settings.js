// Settings: one's own password, what may be changed while the program runs, and prices.

import { badge, button, dim, field, h } from "../core/dom.js";
import { api, setCsrf } from "../core/api.js";
import { time } from "../core/format.js";
import { form, sure } from "../parts/dialog.js";
import { jsonView } from "../parts/json_view.js";
import { empty, load, toast } from "../parts/states.js";
import { table } from "../parts/table.js";

const RATES = {input: "Input", output: "Output", cached_read: "Cached input", cache_write: "Cache writes"};

const input = (name, type, value, more) => h("input", {name, type, ".value": value ?? "", required: true, ...more});

const pricePath = (model) => `/api/prices/${encodeURIComponent(model)}`;

const takeBack = (path, name, again) => () => sure({title: `Take ${name} back?`, text: "What the config file says, or the default, holds again.", action: "Take back", danger: false}, async () => again(await api.del(path)));

const account = ({username, role, how}, again) => {
  const change = async () => {
    const body = [field("Current password", input("current", "password", "", {autocomplete: "current-password"})), field("New password", input("new", "password", "", {autocomplete: "new-password", minlength: "10"}), "10 characters or more; every other session of yours ends")];
    const found = await form({title: "Change your password", body, action: "Change", submit: (data) => api.put("/api/me/password", Object.fromEntries(data))});
    if (!found) return;
    setCsrf(found.csrf);
    toast("The password is changed", "ok");
    again();
  };
  const words = {local: "without signing in, as there are no users", password: "with a password", key: "with an API key", proxy: "by your proxy"};
  return h(".card", h("header", h("h2", "You"), how === "password" && button("Change password", change, "small")),
    h("p", username ?? "nobody in particular", h("span.dim", ` (${role}), ${words[how] ?? "without a key"}`)));
};

const setting = ({name, value, effective}, again) => {
  const path = `/api/settings/${name}`;
  const edit = async () => {
    const text = h("textarea.mono", {name: "value", rows: "10", spellcheck: "false", ".value": JSON.stringify(value ?? effective, null, 2)});
    const submit = (data) => api.put(path, {value: JSON.parse(data.get("value"))});
    if (await form({title: name, body: field("Value (JSON)", text, "where the config file says otherwise, the file wins"), action: "Save", submit, width: "560px"})) again();
  };
  return h(".card", h("header", h("h3.mono", name), badge(...value === null ? ["config file or default"] : ["set here", "info"]),
    button("Edit", edit, "small"), value !== null && button("Take back", takeBack(path, name, again), "small")), jsonView(effective, {open: true}));
};

const price = (row, again) => async () => {
  const rates = row?.rates ?? {};
  const body = [field("Model", input("model", "text", row?.model, {readonly: Boolean(row)}), "a name, or a glob such as gpt-*"),
    h(".grid", {style: {"--min": "120px"}}, Object.entries(RATES).map(([name, label]) => field(label, input(name, "text", rates[name], {inputmode: "decimal", required: name === "input" || name === "output"}))))];
  const submit = (data) => {
    const {model, ...given} = Object.fromEntries(data);
    return api.put(pricePath(model), {rates: {...rates, ...Object.fromEntries(Object.entries(given).map(([name, text]) => [name, text.trim() || null]))}});
  };
  if (await form({title: "USD per million tokens", body, action: "Save", submit})) again();
};

const prices = (rows, again) => {
  const list = table({label: "Prices", columns: [
    {title: "Model", cell: (row) => h("span.mono", row.model)},
    ...["input", "output"].map((name) => ({title: RATES[name], cell: (row) => row.rates[name] ?? "–", num: true})),
    {title: "Set", cell: (row) => (row.source === "file" ? "in the config file" : [time(row.updated_at), row.shadowed && h("span.badge.warn", "the file wins")]), wide: true},
    {title: "", cell: (row) => row.source === "database" && h(".row", button("Edit", price(row, again), "small"), button("Take back", takeBack(pricePath(row.model), row.model, again), "small"))},
  ]});
  list.set(rows, empty("No prices were set", "The public list of the vendors holds. A price of yours wins over it.", button("Set a price", price(null, again))));
  return [h(".head", h("h2.grow", "Prices"), dim("USD per million tokens"), button("Set a price", price(null, again), "small")), list.element];
};

const show = async (page, ctx) => {
  const box = h(".stack");
  page.append(h(".head", h("h1", "Settings")), account(ctx.session, ctx.reload), box);
  if (ctx.session.role !== "admin") return;
  await load(box, async () => {
    const [settings, priced] = await Promise.all([ctx.get("/api/settings"), ctx.get("/api/prices")]);
    return [settings.data.map((row) => setting(row, ctx.reload)), ...prices(priced.data, ctx.reload)].flat();
  }, 6);
};

export default {title: "Settings", show};
