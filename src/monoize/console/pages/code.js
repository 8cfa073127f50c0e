// Code: a task in a workspace, under a contract that is shown before anything happens.

import { $, badge, button, dim, facts, field, h, options, replace } from "../core/dom.js";
import { api } from "../core/api.js";
import { bytes, count, ms } from "../core/format.js";
import { begin, code, runView } from "../parts/run_view.js";
import { empty, failed, load } from "../parts/states.js";
import { chatModels } from "../parts/wire_view.js";

const EXAMPLE = "Read the file hello.txt";
const LONGEST_CHAIN = 20;
const SCOPES = {read: "info", write: "warn", execute: "bad"};
const POLICIES = {required: "A tool has to be used, or the run fails.", optional: "It may use tools or not.", forbidden: "It has no tools."};

const noTools = () => empty("No tools are configured", "A run works with the tools that the operator of this gateway has named, such as a folder. In the config:",
  code("settings:\n  agent:\n    tools:\n      project:\n        workspace: {folder: /path/to/your/project}"), h("a", {href: "/chat"}, "Talk to a model without tools"));

const scope = (tool) => badge(tool.scope ?? "says when asked", SCOPES[tool.scope]);

const toolBox = ({tools, complete}) => [h("legend.label", "Tools"), tools.map((tool) => h("label.check",
  h("input", {type: "checkbox", name: "tool", value: tool.name, ".checked": true}), h("code", tool.name), scope(tool), h("span.dim.small.clip.only-wide", tool.description))),
!complete && dim("Its servers say what else they have when a run begins; leave all checked to have that too.")];

const budgets = (contract) => Object.entries({
  inferences: count(contract.max_inferences), "tool calls": count(contract.max_tool_calls), tokens: contract.max_tokens_consumed ? count(contract.max_tokens_consumed) : "no limit",
  "tokens of one answer": count(contract.max_output_tokens), time: `${ms(contract.total_timeout_ms)}, ${ms(contract.step_timeout_ms)} for each step`,
  "output of one tool": bytes(contract.tool_output_budget.max_bytes_per_call), context: `${count(contract.context_budget.context_window)} tokens`, "format retries": contract.max_format_retries,
});

const drawContract = ({contract, contract_hash: hash, decisions, tools, refusals}, start) => {
  const {why, matched} = decisions.findLast((one) => one.field === "tool_policy");
  return h("section.card",
    h("header", h("h2", "The contract"), h("code.dim", {title: `contract_hash ${hash}`}, hash.slice(0, 16))),
    refusals.map(({code: name, reason}) => h("p.notice.bad", `${reason} (${name})`)),
    h(".split",
      h(".stack.tight", h("h3", "Tools ", badge(contract.tool_policy, "info")), h("p", POLICIES[contract.tool_policy]),
        h("p.dim", `Why: ${why}`, matched && ` (“${matched}”)`),
        tools.map((tool) => h(".bar", h("code", tool.name), scope(tool), tool.needs_approval && badge("asks for your yes", "warn")))),
      h(".stack.tight", h("h3", "Budgets"), facts(budgets(contract)))),
    h("details", h("summary", "Every decision and why"), facts(decisions.map((one) => [one.field, h("code", JSON.stringify(one.value)), " ", dim(one.why)]))),
    h(".bar", button("Start", start, "primary", {disabled: refusals.length > 0}),
      refusals.length > 0 && dim("As it stands the run would end before it begins (FAILED_PREFLIGHT).")));
};

/** The run and those that it goes on with, the oldest first. */
const chain = async (id, get) => {
  const ids = [];
  for (let next = id; next && ids.length < LONGEST_CHAIN;) {
    ids.unshift(next);
    next = (await get(`/v1/agent/runs/${next}`)).run.parent;
  }
  return ids;
};

const form = (sources, models, {query, remember, signal, get}) => {
  const [steps, runs, tools] = [h(".stack"), h(".stack"), h("fieldset")];
  const named = (name) => sources.find((one) => one.name === name) ?? sources[0];
  let watching = new AbortController();

  const watch = (ids) => {
    watching.abort();
    watching = new AbortController();
    remember({run: ids.at(-1)});
    replace(steps);
    replace(runs, ids.map((id) => runView(id, {signal: AbortSignal.any([signal, watching.signal]), onChild: id === ids.at(-1) && ((child) => watch([...ids, child]))})));
    runs.lastElementChild?.focus();
  };
  const refuse = (error) => signal.aborted || replace(steps, failed(error));
  const preview = async (event) => {
    event.preventDefault();
    const fields = new FormData(event.target);
    const [source, chosen] = [named(fields.get("source")), fields.getAll("tool")];
    const body = {page: "code", task: fields.get("task"), model: fields.get("model"), tools: [source.name], contract: {}};
    if (chosen.length < source.tools.length) body.contract.allowed_tools = chosen;
    if (fields.has("ask")) body.contract.approval = ["scope:write", "scope:execute"];
    watch([]);
    remember({source: source.name, model: body.model});
    await load(steps, async () => drawContract(await api.post("/v1/agent/contract", body, {signal}), () => begin(body).then((id) => watch([id]), refuse)), 6);
    $(".primary:enabled", steps)?.focus();
  };
  const offer = (name) => replace(tools, toolBox(named(name)));
  const example = () => {
    $("#task").value = EXAMPLE;
    for (const box of tools.querySelectorAll("input")) box.checked = box.value === "read_file" || !$("[value=read_file]", tools);
  };
  const choice = (name, label, chosen, entries, change) => field(label, h("select", {name, ".value": chosen, on: {change}}, options(entries)));

  const [source, model] = [named(query.get("source")).name, models.find((id) => id === query.get("model")) ?? models[0]];
  offer(source);
  if (query.get("run")) chain(query.get("run"), get).then(watch).catch(refuse);
  return [h("form.card", {on: {submit: preview}},
    field("Task", h("textarea", {id: "task", name: "task", rows: 3, required: true, placeholder: EXAMPLE})),
    h(".grid",
      choice("source", "Workspace", source, sources.map(({name, folder, kinds}) => [name, folder ? `${name} (${folder})` : kinds.includes("workspace") ? name : `${name} (no folder)`]), ({target}) => offer(target.value)),
      choice("model", "Model", model, models)), tools,
    h("label.check", h("input", {type: "checkbox", name: "ask"}), "Ask me before files are changed, too"),
    h(".bar", h("button.primary", {type: "submit"}, "Show the contract"), button("An example", example, "quiet"))), steps, runs];
};

export default {
  title: "Code",
  async show(page, {signal, ...ctx}) {
    const box = h(".stack");
    page.append(h(".head", h("h1", "Code"), h("a.button", {href: "/runs"}, "All runs")), box);
    await load(box, async () => {
      const [{data: tools}, models] = await Promise.all([ctx.get("/v1/agent/tools"), chatModels(ctx)]);
      return tools.length ? form(tools, models.map(({id}) => id), {signal, ...ctx}) : noTools();
    }, 8);
  },
};
