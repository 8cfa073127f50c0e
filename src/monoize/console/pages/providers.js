// Providers: the order in which they are asked; each with its channels and their health, its models and settings.

import { badge, button, dim, field, h, options, replace } from "../core/dom.js";
import { api } from "../core/api.js";
import { count, ms, time } from "../core/format.js";
import { form, sure } from "../parts/dialog.js";
import { channelLight, light } from "../parts/lights.js";
import { reorder } from "../parts/reorder.js";
import { schemaForm } from "../parts/schema_form.js";
import { complain, empty, load, toast } from "../parts/states.js";

// Id, type, address, models: with a key they are complete.
const PRESETS = [
  ["openai", "responses", "https://api.openai.com/v1", "gpt-*\no1*\no3*\no4*"],
  ["anthropic", "messages", "https://api.anthropic.com/v1", "claude-*"],
  ["gemini", "gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-*\ngemma-*"],
  ["xai", "grok", "https://api.x.ai/v1", "grok-*"],
  ["deepseek", "chat_completion", "https://api.deepseek.com/v1", "deepseek-*"],
  ["openrouter", "chat_completion", "https://openrouter.ai/api/v1", "*/*"],
  ["another", "chat_completion", "http://127.0.0.1:8000/v1", "*"],
  ["local", "local", "", ""],
];

const to = (...path) => ["/api/providers", ...path.map(encodeURIComponent)].join("/");
const pageOf = (id) => `/providers/${encodeURIComponent(id)}`;
const tool = (text, click, kind = "") => button(text, click, `small ${kind}`);
const keyField = (hint = "It goes in and never comes out again.") => field("Key", h("input", {name: "api_key", type: "password", autocomplete: "off"}), hint);

// Looks again every two seconds, as long as somebody may see it.
const watch = (signal, work) => {
  const look = () => document.hidden || work().catch(() => {}); // the next look may go well
  const timer = setInterval(look, 2000);
  signal.addEventListener("abort", () => clearInterval(timer));
  document.addEventListener("visibilitychange", look, {signal});
};

const badges = ({type, source, shadowed, enabled}) => [badge(type), source === "file" && badge("config file", "info"), shadowed && badge("shadowed by the config file", "warn"), !enabled && badge("disabled", "warn")];

// --- all of them ---

const addProvider = async (ctx) => {
  const [id, address, models] = ["input", "input", "textarea"].map((tag) => h(tag, {required: true, rows: 3}));
  const pick = h("select", {on: {change: () => fill()}}, options(PRESETS.map(([name, type], at) => [at, `${name} (${type})`])));
  const fill = () => { [id.value, , address.value, models.value] = PRESETS[pick.value]; };
  fill();
  const made = await form({title: "Add provider", action: "Add", body: [field("Provider", pick), keyField(), field("Id", id), field("Address", address, "Of a local provider: the name of its engine."),
    field("Models", models, "One a line; * stands for any letters.")], submit: (data) => {
    const type = PRESETS[pick.value][1];
    const way = type === "local" ? {engine: address.value, channels: [{id: "engine"}]} : {channels: [{id: "main", base_url: address.value, api_key: data.get("api_key") || null}]};
    return api.post("/api/providers", {id: id.value, type, ...way, models: Object.fromEntries(models.value.split(/\s+/).filter(Boolean).map((name) => [name, {}]))});
  }});
  if (made) ctx.go(pageOf(made.id));
};

const showAll = async (page, ctx) => {
  const box = h("div");
  const add = button("Add provider", () => addProvider(ctx), "primary");
  const lights = new Map(); // by provider
  let rows = [];
  page.append(h(".head", h("h1", "Providers"), add), box);
  const paint = () => lights.forEach((element, id) => replace(element, rows.filter((row) => row.provider === id)
    .map((row) => [channelLight(row), dim([row.channel, row.model, row.reason].filter(Boolean).join(" · "))])));
  const draw = (provider) => {
    const names = Object.keys(provider.models);
    lights.set(provider.id, h(".bar.small"));
    return h(".stack.tight", h(".bar", h("a", {href: pageOf(provider.id)}, h("b", provider.id)), badges(provider)),
      h(".dim.small.clip", `${count(names.length)} ${names.length === 1 ? "model" : "models"}: ${names.slice(0, 9).join(", ")}`), lights.get(provider.id));
  };
  const look = async () => {
    rows = (await api.get("/api/health/channels")).channels;
    paint();
  };
  const onMove = (items) => {
    paint();
    api.put("/api/provider-order", {order: items.filter((item) => item.source === "database").map((item) => item.id)})
      .then(() => toast("The order holds from now on", "ok"), (error) => complain(error) ?? ctx.reload());
  };
  await load(box, async () => {
    const [{data}] = await Promise.all([api.get("/api/providers"), look()]);
    if (!data.length) return empty("No providers yet", "Add a place that answers: a vendor, a server of your own, an engine on this machine.");
    const list = reorder(data, {label: (item) => item.id, draw, fixed: (item) => item.source === "file", onMove});
    paint();
    return h(".stack", h("p.dim", "Asked from top to bottom; those of the config file come first."), h(".card", list));
  });
  watch(ctx.signal, look);
};

// --- one of them ---

const removed = (name, path, then) => sure({title: `Delete ${name}?`, text: "Its keys are forgotten.", action: "Delete"}, async () => then(await api.del(path)));

// Every field that may be changed, but for those that have a place of their own.
const schemaOf = async (name, ...others) => {
  const {components} = await api.get("/openapi.json");
  return {type: "object", components, properties: Object.fromEntries(Object.entries(components.schemas[name].properties).filter(([one]) => !others.includes(one)))};
};

const channelForm = async (title, channel, submit) => {
  const fields = schemaForm(await schemaOf("ChannelChange", "api_key", "enabled"), channel);
  return form({title, action: "Save", width: "560px", body: [
    !channel.id && field("Id", h("input", {name: "id", required: true})),
    keyField(channel.has_api_key ? "There is one; leave this empty to keep it." : undefined),
    channel.header_names?.length > 0 && dim(`Sends the headers ${channel.header_names.join(", ")}; new ones take their place.`),
    fields.element,
  ], submit: (data) => submit({...fields.value(), ...Object.fromEntries([...data].filter(([, value]) => value))})});
};

const errorLine = (error) => h("li.bar.small", dim(time(error.at)), badge(error.status ?? "no answer", "bad"),
  h("a", {href: `/requests/${encodeURIComponent(error.request_id)}`}, error.message));

// `show` takes what is known of the channel by now.
const channelPart = (one, channel, model) => {
  const path = ["channels", channel.id];
  const [state, figures, said, wrong] = [h(".bar"), h(".dim.small"), h(".small", {"aria-live": "polite"}), h("div")];
  const test = async () => {
    replace(said, "Asking …");
    const found = await api.post(to(one.id, ...path, "test"), model.value ? {model: model.value} : {}).catch((error) => ({error: error.message}));
    replace(said, light(found.error ?? `${found.model} answered in ${ms(found.latency_ms)}`, found.success ? "ok" : "bad"));
  };
  const change = (body) => one.save(body, ...path);
  const show = (rows, errors) => {
    replace(state, rows.map((row) => [channelLight(row), row.model, dim(row.reason)]), !one.provider.enabled && "the provider is disabled");
    replace(figures, rows.map(({totals, in_flight, latency_ms}) => h("div", `${count(totals.success)} answered, ${count(totals.failure + totals.rate_limited)} failed, ${count(in_flight)} on their way, latency ${ms(latency_ms)}`)));
    const mark = errors.map((error) => error.request_id).join();
    if (mark === (wrong.dataset.mark ?? "")) return;
    wrong.dataset.mark = mark;
    replace(wrong, h("details", {open: true}, h("summary.small", "Last errors"), h("ul.stack.tight", errors.map(errorLine))));
  };
  const element = h(".card.tight", {role: "group", "aria-label": channel.id},
    h("header", h("h3", channel.id), tool("Test", test), !one.isFile && [
      tool("Edit", () => channelForm(channel.id, channel, change)),
      tool(channel.enabled ? "Disable" : "Enable", () => change({enabled: !channel.enabled}).catch(complain)), tool("Delete", () => removed(channel.id, to(one.id, ...path), one.take), "danger")]),
    h(".mono.dim.clip", `${channel.base_url ?? "on this machine"} · ${channel.has_api_key ? "has a key" : "no key"} · weight ${channel.weight}`), state, figures, said, wrong);
  return {id: channel.id, element, show};
};

const channelsCard = (one) => {
  const box = h(".stack");
  const model = h("input", {"aria-label": "Model to test with", placeholder: "model to test with"});
  let parts = [];
  const fill = () => {
    const {channels} = one.provider;
    parts = (channels.length ? channels : [{id: "engine", weight: 1}]).map((channel) => channelPart(one, channel, model));
    replace(box, parts.map((part) => part.element));
  };
  const add = () => channelForm("Add channel", {}, async (body) => one.take(await api.post(to(one.id, "channels"), body)));
  const paint = (...known) => parts.forEach((part) => part.show(...known.map((all) => all.filter((row) => row.provider === one.id && row.channel === part.id))));
  fill();
  return {fill, paint, element: h("section.card", h("header", h("h2", "Channels"), model, !one.isFile && tool("Add channel", add)), box)};
};

const modelsCard = (one) => {
  const [body, names] = [h("tbody"), h("datalist", {id: "names"})];
  const cell = (label, value, list) => h("td", h("input", {"aria-label": label, list, disabled: one.isFile, style: {width: "100%", "min-width": "9em"}, ".value": value ?? ""}));
  const add = (name, row = {}) => body.append(h("tr", {".model": row}, cell("Model", name, "names"), cell("Redirect", row.redirect, "names"), cell("Multiplier", row.multiplier),
    h("td", !one.isFile && tool("Remove", (event) => event.target.closest("tr").remove(), "quiet"))));
  const addEmpty = async () => {
    add();
    body.lastChild.querySelector("input").focus();
    if (!names.childElementCount) replace(names, (await api.get(to(one.id, "models"))).data.map((value) => h("option", {value}))); // what the provider itself lists
  };
  const fill = () => {
    replace(body);
    Object.entries(one.provider.models).forEach(([name, row]) => add(name, row));
  };
  const read = () => Object.fromEntries([...body.rows].map((row) => {
    const [name, redirect, multiplier] = [...row.querySelectorAll("input")].map((input) => input.value.trim() || null);
    return [name, {...row.model, redirect, multiplier}];
  }).filter(([name]) => name));
  fill();
  return h("section.card", h("header", h("h2", "Models"), names, !one.isFile && [tool("Add model", () => addEmpty().catch(complain)),
    tool("Save models", () => one.save({models: read()}).then(fill, complain), "primary")]),
  h(".scroll", h("table", h("thead", h("tr", ["Model", "Redirect", "Multiplier"].map((title) => h("th", title)), h("td"))), body)));
};

const settingsCard = (one) => {
  const box = h(".stack");
  const fill = async () => {
    const fields = schemaForm(await schemaOf("ProviderChange", "enabled", "models", "channels", "transforms"), one.provider);
    const save = () => fields.check() && one.save(fields.value()).catch(fields.show);
    return [h("fieldset", {disabled: one.isFile}, fields.element), !one.isFile && h("div", button("Save settings", save, "primary"))];
  };
  return h("details.card", {on: {toggle: () => box.childElementCount || load(box, fill)}}, h("summary", "Type, retries, time-outs, policy, health, capabilities"), box);
};

const showOne = async (page, ctx) => {
  const {id} = ctx.params;
  const [head, box] = [h(".head", h("h1", id)), h(".stack")];
  page.append(h("a", {href: "/providers", class: "small"}, "All providers"), head, box);
  let card = null;
  const look = async () => {
    const [health, errors] = await Promise.all([api.get("/api/health/channels"), api.get("/api/health/errors")]);
    card?.paint(health.channels, errors.data);
  };
  const one = {
    id,
    take: (provider) => {
      one.provider = provider;
      drawHead();
      card.fill();
      look().catch(() => {});
    },
    save: async (change, ...path) => {
      one.take(await api.patch(to(id, ...path), change));
      toast("Saved", "ok");
    },
  };
  const drawHead = () => replace(head, h("h1", id), badges(one.provider),
    h("a.button", {href: `/transforms?provider=${encodeURIComponent(id)}`}, `Transforms (${one.provider.transforms.length})`), !one.isFile && [
      button(one.provider.enabled ? "Disable" : "Enable", () => one.save({enabled: !one.provider.enabled}).catch(complain)), button("Delete", () => removed(id, to(id), () => ctx.go("/providers")), "danger")]);
  await load(box, async () => {
    one.provider = await api.get(to(id));
    one.isFile = one.provider.source === "file";
    drawHead();
    card = channelsCard(one);
    await look();
    return [one.isFile && h("p.notice.info", "This provider stands in the config file (or its key in the environment): change it there."),
      card.element, modelsCard(one), settingsCard(one)];
  });
  watch(ctx.signal, look);
};

export default {title: "Providers", show: (page, ctx) => (ctx.params.id ? showOne : showAll)(page, ctx)};
