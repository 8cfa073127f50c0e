// Transforms: the rules of a provider or a key, in order, and a dry run that shows what each of them changes.

import { badge, button, dim, field, h, options, replace } from "../core/dom.js";
import { api } from "../core/api.js";
import { when } from "../core/format.js";
import { diff } from "../parts/diff.js";
import { jsonView } from "../parts/json_view.js";
import { reorder } from "../parts/reorder.js";
import { schemaForm } from "../parts/schema_form.js";
import { complain, empty, failed, load, toast } from "../parts/states.js";

const PROTOCOLS = ["chat_completion", "responses", "messages", "gemini", "grok"];
const SAMPLE = {model: "gpt-4o", max_tokens: 1024, messages: [{role: "system", content: "You sell tickets."}, {role: "user", content: "Which train goes to Bern?"}]};
const MODELS = {description: "Globs, one a line; none: all models.", anyOf: [{type: "array", items: {type: "string"}}, {type: "null"}]};

const text = (value) => JSON.stringify(value, null, 2);

// Where rules stand: providers for admins, keys for everybody.
const placesOf = async (isAdmin) => {
  const [providers, keys] = await Promise.all([isAdmin ? api.get("/api/providers") : {data: []}, api.get("/api/keys", {limit: 1000}).catch(() => ({data: []}))]); // without a store there are no keys
  return [
    ...providers.data.map(({id, source, type, transforms}) => ({kind: "provider", id, name: id, source, type, rules: transforms, change: (rules) => ({transforms: rules})})),
    ...keys.data.map(({id, name, source, policy}) => ({kind: "key", id, name, source, rules: policy.transforms, change: (rules) => ({policy: {transforms: rules}})})),
  ];
};

// --- the rules ---

const schemaFor = ({phases, config_schema: {$defs, ...config}}) => ({type: "object", $defs, required: ["phase", "config"], properties: {
  ...(phases.length > 1 && {phase: {enum: phases}}), models: MODELS, ...(Object.keys(config.properties).length && {config}),
}});

const rulesCard = (place, catalogue, isAdmin) => {
  const isFile = place.source === "file";
  const box = h("div");
  const entryOf = (rule, open = false) => {
    const kind = catalogue.find(({type_id}) => type_id === rule.transform);
    return {rule, kind, open, fields: schemaForm(kind ? schemaFor(kind) : {type: "object", properties: {}}, rule)};
  };
  let entries = place.rules.map((rule) => entryOf(rule));
  const keep = (found) => {
    entries = found;
    replace(box, entries.length ? reorder(entries, {label: ({rule}) => rule.transform, draw, fixed: () => isFile, onMove: (order) => { entries = order; }})
      : empty("No rules here", "A rule lets a transform change what comes in or goes out."));
  };
  const draw = (entry, index) => {
    const {rule, kind, fields} = entry;
    entry.details = h("details.grow", {open: entry.open, on: {toggle: () => { entry.open = entry.details.open; }}},
      h("summary", h("b", `${index + 1}. ${rule.transform}`), " ", badge(rule.phase), dim(` ${rule.models?.join(", ") ?? "all models"}`)),
      h("fieldset.group", {disabled: isFile}, dim(kind?.description ?? "There is no such transform here."), fields.element,
        !isFile && h("div", button("Remove rule", () => keep(entries.filter((other) => other !== entry)), "small danger"))));
    const tick = h("input", {type: "checkbox", disabled: isFile, "aria-label": `${rule.transform} is enabled`, ".checked": entry.rule.enabled, on: {change: () => { entry.rule = {...entry.rule, enabled: tick.checked}; }}});
    return h(".row", {style: {"align-items": "start"}}, tick, entry.details);
  };
  const pick = h("select", {"aria-label": "Transform to add"}, options(catalogue.filter((one) => isAdmin || !one.for_admins_only).map(({type_id}) => type_id)));
  const add = () => {
    const {type_id: transform, phases: [phase], example_config: config} = catalogue.find(({type_id}) => type_id === pick.value);
    keep([...entries, entryOf({transform, phase, enabled: true, models: null, config}, true)]);
  };
  const read = () => entries.map(({rule, fields}) => ({...rule, ...fields.value()}));
  const show = (index, path, message) => {
    entries[index].details.open = true;
    entries[index].fields.show([{path, message}]);
  };
  const save = async () => {
    if (entries.map(({fields}) => fields.check()).includes(false)) return;
    try {
      await api.patch(`/api/${place.kind}s/${encodeURIComponent(place.id)}`, place.change(read()));
      toast("The rules hold from now on", "ok");
    } catch (error) {
      // "transforms[1].config.tag: what is wrong", or the same place in `param`
      const [, index, path] = /transforms\[(\d+)\]\.?([^:\s]*)/.exec(`${error.param} ${error.message}`) ?? [];
      if (index === undefined) complain(error);
      else show(index, path, error.message.replace(/^\S+: /, ""));
    }
  };
  keep(entries);
  return {read, show, element: h("section.card", h("header", h("h2", "Rules"), !isFile && button("Save rules", save, "small primary")),
    isFile && h("p.notice.info", `The ${place.kind} ${place.name} stands in the config file: change its rules there. They can be tried here all the same.`), box, !isFile && h(".bar", pick, button("Add rule", add)))};
};

// --- the dry run ---

// JSON, or a stream as it went over the wire.
const parsed = (given) => {
  try {
    return JSON.parse(given);
  } catch (error) {
    const events = given.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim());
    if (!events.length) throw error;
    return events.map((line) => (line.startsWith("{") ? JSON.parse(line) : line));
  }
};

const stepsOf = ({before, steps}) => {
  let last = before;
  return steps.map(({transform, changes, why_not, path, body}, index) => {
    const earlier = last;
    last = body ?? last;
    const [kind, word] = path ? ["bad", "wrong"] : changes ? ["ok", changes.length ? `${changes.length} changed` : "no change"] : ["", "did not run"];
    return h("section.stack.tight", h(".bar", h("h3", `${index + 1}. ${transform}`), badge(word, kind), dim(path && `${path}: `, why_not)),
      body ? diff(earlier, body) : changes?.map((change) => h("code", change.path)));
  });
};

const trialCard = (place, rules) => {
  const [what, from, target] = [["request", "response"], PROTOCOLS, ["the same", ...PROTOCOLS]].map((values) => h("select", options(values)));
  if (PROTOCOLS.includes(place.type)) target.value = place.type;
  const model = h("input", {placeholder: "as in the body"});
  const given = h("textarea.mono", {rows: 12, spellcheck: "false", ".value": text(SAMPLE)});
  const result = h(".stack", {"aria-live": "polite"});
  const recent = h("select", {on: {change: () => take()}}, options([["", "choose …"]]));
  let rows = [];
  const take = async () => {
    const row = rows.find((one) => one.request_id === recent.value);
    if (!row) return;
    try {
      const {body} = await api.get(`/api/logs/${encodeURIComponent(row.request_id)}/capture`);
      from.value = row.protocol;
      model.value = row.requested_model;
      given.value = what.value === "request" ? text(body.request) : body.reply;
    } catch (error) {
      replace(result, h("p.notice.warn", `${error.message}. A key keeps bodies when its capture is "all".`));
    }
  };
  what.addEventListener("change", take);
  api.get("/api/logs", {limit: 50, operation: "chat_completions"}).then((page) => {
    rows = page.rows.filter((row) => PROTOCOLS.includes(row.protocol));
    recent.append(...options(rows.map((row) => [row.request_id, `${when(row.created_at)} ${row.requested_model} ${row.username ?? ""}`])));
  }).catch(() => {}); // without a store there are none
  const run = async () => {
    try {
      const body = parsed(given.value);
      const report = await api.post("/api/transforms/trial", {from: from.value, rules: rules.read(), [Array.isArray(body) ? "stream" : what.value]: body,
        to: target.value === "the same" ? null : target.value, model: model.value || null});
      report.steps.forEach((step, index) => step.path && rules.show(index, step.path, step.why_not));
      replace(result, stepsOf(report), report.refused && h("p.notice.bad", report.refused), report.dropped.length > 0 && h("p.notice.warn", `Lost on the way to ${report.to}: ${report.dropped.join(", ")}`),
        report.result && h("details", h("summary", `What goes out (${report.to})`), jsonView(report.result)));
    } catch (error) {
      replace(result, failed(error));
    }
  };
  return h("section.card", h("header", h("h2", "Dry run"), button("Run", run, "small primary")), dim("Nothing is sent. The rules are tried as they stand on this page, saved or not."),
    h(".grid", {style: {"--min": "120px"}}, field("What", what), field("Written in", from), field("Goes to", target), field("Model", model)),
    field("One of the last requests", recent), field("Body", given, "JSON, or the data: lines of a stream."), result);
};

export default {
  title: "Transforms",
  async show(page, ctx) {
    const [head, box] = [h(".head", h("h1", "Transforms")), h("div")];
    page.append(head, box);
    const isAdmin = ctx.session.role === "admin";
    await load(box, async () => {
      const [{data}, places] = await Promise.all([api.get("/api/transforms"), placesOf(isAdmin)]);
      const place = places.find((one) => ctx.query.get(one.kind) === one.id) ?? places.find((one) => one.rules.length) ?? places[0];
      if (!place) return empty("Nobody to have rules yet", "Rules belong to a provider or a key.", h("a.button", {href: "/keys"}, "Make a key"));
      const pick = h("select", {"aria-label": "Whose rules", on: {change: () => ctx.go(`/transforms?${new URLSearchParams({[places[pick.value].kind]: places[pick.value].id})}`)}, ".value": places.indexOf(place)},
        options(places.map((one, at) => [at, `${one.kind} ${one.name} (${one.rules.length})`])));
      head.append(pick);
      const rules = rulesCard(place, data, isAdmin);
      return h(".split", rules.element, trialCard(place, rules));
    });
  },
};
