// Chat: any model through any protocol, the call as code, and what becomes of it upstream.
import { badge, button, dim, field, h, options, replace } from "../core/dom.js";
import { api } from "../core/api.js";
import { count, ms, usd } from "../core/format.js";
import { codeTabs } from "../parts/code_tabs.js";
import { sheet } from "../parts/dialog.js";
import { complain, empty, failed, load, loading } from "../parts/states.js";
import { PROTOCOLS, programs, request } from "../parts/wire_code.js";
import { media } from "../parts/wire_parts.js";
import { chatModels, drawParts, modelChoice, offer, upstream } from "../parts/wire_view.js";

const OWN = "its own";
const LONGEST_SAID = 4000; // letters of an answer that are read out
const root = document.documentElement;

// Whoever looks at the end of the page goes on looking at it while something grows there.
const keepEnd = (draw) => {
  const isAtEnd = scrollY + innerHeight > root.scrollHeight - 60;
  draw();
  if (isAtEnd) scrollTo(0, root.scrollHeight);
};

const dataUrl = (file) => new Promise((done) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result);
  reader.readAsDataURL(file);
});

const number = (text) => (text ? Number(text) : undefined);

const asked = ({model, system, temperature, maxTokens, effort}, turns) => ({
  model, system: system || undefined, temperature: number(temperature), maxTokens: number(maxTokens), effort: effort || undefined,
  turns: turns.filter(({parts}) => parts.length), raw: turns[0].raw,
});

const asCode = (settings, turns) => sheet({title: "The same call as code", width: "860px", body: codeTabs(programs(settings.protocol, asked(settings, turns), location.origin))});

const goesUpstream = (settings, turns, id) => {
  const box = h("div");
  const {protocol, model} = settings;
  sheet({title: "What went upstream", width: "860px", body: box});
  load(box, () => upstream(protocol, model, request(protocol, asked(settings, turns)).body, id), 8);
};

// The row is there a moment after the last event, of a call that was stopped a little later. So it is searched for: a row that is not there yet is no error.
const logged = async (id, signal) => {
  for (const pause of [100, 300, 900, 1500, 2500]) {
    await new Promise((done) => { setTimeout(done, pause); });
    if (signal.aborted) return null;
    const {rows: [row]} = await api.get("/api/logs", {request_id: id, limit: 1}, {signal}).catch(() => ({rows: []}));
    if (row && row.status !== "pending") return row;
  }
  return null;
};

const costs = ({input_tokens: input, cached_tokens: cached, output_tokens: output, reasoning_tokens: thought, charge, unpriced, estimated, duration_ms: took, provider, channel, losses}) => [
  input !== null && `${count(input)} in (${count(cached ?? 0)} cached), ${count(output)} out (${count(thought ?? 0)} reasoning)`,
  `${unpriced ? "no price known" : usd(charge)}${estimated ? ", estimated" : ""}`, ms(took), provider && `${provider} / ${channel}`, losses?.length ? "lossy" : "lossless",
].map((text) => text && h("span", text));

const drawTurn = (turn, before, isRunning = false) => {
  const {role, parts, raw, error, finish, row, id, settings} = turn;
  const words = h(".stack");
  drawParts(words, raw ? [{kind: "raw", text: JSON.stringify(raw, null, 2)}] : parts);
  return h("li.card", {class: role}, h("h3.dim", role), words, error && failed({message: error}), isRunning ? dim("Answering …") : role === "assistant" && h("footer.bar.small.dim",
    finish && badge(finish), row && costs(row), id && h("a.mono", {href: `/requests/${id}`}, id),
    button("As code", () => asCode(settings, before), "small quiet"), button("What went upstream", () => goesUpstream(settings, before, id), "small quiet")));
};

const settingsForm = (models, save) => {
  const [model, list] = modelChoice({name: "model", required: true});
  return h("form.card", {"aria-label": "Settings", on: {change: save, submit: (event) => event.preventDefault()}},
    h(".filters", field("Model", model),
      field("Protocol", h("select", {name: "protocol"}, options(Object.keys(PROTOCOLS)))),
      field("Temperature", h("input", {name: "temperature", type: "number", min: 0, max: 2, step: 0.1, placeholder: OWN})),
      field("Max tokens", h("input", {name: "maxTokens", type: "number", min: 1, placeholder: OWN})),
      field("Reasoning effort", h("select", {name: "effort"}, options([["", OWN], "none", "low", "medium", "high"])))),
    offer(list, models),
    h("details", h("summary", "System prompt"), h("textarea", {name: "system", rows: 3, "aria-label": "System prompt"})),
    !models.length && h("p.notice.warn", "No provider has a model for chats yet. ", h("a", {href: "/providers"}, "Add one")));
};

// Reads the stream into `turn` and says so after each event.
const answer = async (turn, {path, body}, signal, told) => {
  const opened = ({headers}) => { turn.id = headers.get("x-request-id"); };
  try {
    for await (const {data} of api.events(path, {method: "POST", body, signal, opened})) {
      if (data.startsWith("{")) PROTOCOLS[turn.settings.protocol].read(turn, JSON.parse(data)); // and not [DONE]
      told();
    }
  } catch (error) {
    Object.assign(turn, error.name === "AbortError" ? {finish: "stopped"} : {error: error.message, id: turn.id ?? error.id});
  }
};

const show = async (page, ctx) => {
  const waiting = loading(6);
  const head = h(".head", h("h1", "Chat"));
  page.append(head, waiting);
  const models = await chatModels(ctx);
  const {turns = [], settings: chosen} = JSON.parse(sessionStorage.getItem("chat") ?? "{}");
  const draft = [];
  let running = null;
  const settings = () => Object.fromEntries(new FormData(form));
  const save = () => {
    try {
      sessionStorage.setItem("chat", JSON.stringify({turns, settings: settings()}));
    } catch {
      sessionStorage.removeItem("chat"); // too much for the browser: it lasts as long as the page
    }
  };
  const form = settingsForm(models, save);
  for (const [name, value] of Object.entries({model: models[0]?.id ?? "", ...chosen, ...Object.fromEntries([...ctx.query].filter(([name]) => name === "model"))})) form.elements[name].value = value;

  const talk = h("ol.stack", {"aria-label": "Conversation"});
  const said = h(".unseen", {role: "status"}); // the answer once it is whole: read out while it grows it would never end
  const drawTalk = () => replace(talk, turns.length ? turns.map((turn, index) => drawTurn(turn, turns.slice(0, index), running && index === turns.length - 1))
    : h("li", empty("Say something", "The conversation stays in this tab, and every call sends the whole of it.")));
  const chips = h(".bar");
  const drawChips = () => replace(chips, draft.map(({name, url}, index) => button(`${name}, ${url.startsWith("data:") ? "inside" : "by reference"} ×`, () => {
    draft.splice(index, 1);
    drawChips();
  }, "small", {title: "Remove"})));
  const files = h("input", {type: "file", multiple: true, hidden: true, on: {change: async () => {
    for (const file of files.files) draft.push(media(file.type || "application/octet-stream", await dataUrl(file), file.name));
    files.value = "";
    drawChips();
  }}});
  const text = h("textarea", {rows: 2, "aria-label": "Message", placeholder: "Enter sends, Shift+Enter is a new line", on: {keydown: (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!running) send();
  }}});
  const spoken = () => [...(text.value.trim() ? [{kind: "text", text: text.value.trim()}] : []), ...draft];
  // With nothing written: a greeting, for the code to have something to say, or a request that came as a whole.
  const next = (parts = spoken()) => (turns.at(-1)?.raw && !parts.length ? turns
    : [...(turns[0]?.raw ? [] : turns), {role: "user", parts: parts.length ? parts : [{kind: "text", text: "Hello"}]}]);
  const submit = h("button", {type: "submit", class: "primary"}, "Send");

  const send = async () => {
    if (!spoken().length && !turns.at(-1)?.raw) return text.focus();
    if (!form.reportValidity()) return null;
    const before = next();
    const turn = {role: "assistant", parts: [], settings: settings()};
    const mine = running = new AbortController();
    turns.splice(0, turns.length, ...before, turn);
    text.value = "";
    draft.length = 0;
    drawChips();
    drawTalk();
    save();
    submit.textContent = "Stop";
    let node = talk.lastElementChild;
    let due = 0;
    const grow = () => {
      due = 0;
      keepEnd(() => drawParts(node.children[1], turn.parts));
    };
    const finish = () => keepEnd(() => {
      const drawn = drawTurn(turn, before);
      drawn.children[1].replaceWith(node.children[1]); // what somebody has unfolded stays
      node.replaceWith(drawn);
      node = drawn;
      save();
    });
    scrollTo(0, root.scrollHeight);
    said.textContent = "Answering";
    await answer(turn, request(turn.settings.protocol, asked(turn.settings, before)), mine.signal, () => { due ||= requestAnimationFrame(grow); });
    cancelAnimationFrame(due);
    grow();
    if (running === mine) {
      running = null;
      submit.textContent = "Send";
      said.textContent = turn.parts.map((part) => part.text ?? part.name ?? part.kind).join("\n").slice(0, LONGEST_SAID);
    }
    finish();
    turn.row = turn.id && await logged(turn.id, ctx.signal);
    return finish();
  };
  const onSubmit = (event) => {
    event.preventDefault();
    if (running) running.abort();
    else send();
  };
  const anew = () => {
    running?.abort();
    turns.length = 0;
    save();
    drawTalk();
    text.focus();
  };
  head.append(button("New conversation", anew));
  waiting.replaceWith(form, talk, said,
    h("form.card.composer", {on: {submit: onSubmit}}, chips, text, h("p.dim.small", "No tool is offered on this page."), h(".bar", button("Attach", () => files.click(), "small"), files,
      button("As code", () => asCode(settings(), next()), "small quiet"), button("What goes upstream", () => goesUpstream(settings(), next()), "small quiet"), h("span.grow"), submit)));
  drawTalk();
  const stored = ctx.query.get("media");
  if (stored) {
    ctx.remember({media: null});
    await api.get(`/v1/media/${stored}/meta`).then(({mime, uri, name}) => draft.push(media(mime, uri, name ?? stored)), complain);
    drawChips();
  }
  return () => running?.abort();
};

export default {title: "Chat", show};
