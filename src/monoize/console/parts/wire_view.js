// Parts of a turn as what they are, and what becomes of a call on its way upstream.
import { h, options, replace } from "../core/dom.js";
import { api } from "../core/api.js";
import { cut } from "../core/format.js";
import { jsonView } from "./json_view.js";

export const chatModels = async ({get}) => {
  const {data} = await get("/v1/models");
  return data.filter(({operations}) => operations?.includes("chat_completions") ?? true);
};

// A model to type or to choose. A browser offers only what begins like the value: as long as somebody is here, that stands aside.
export const modelChoice = (props) => {
  const model = h("input", {list: "models", autocomplete: "off", ...props, on: {
    focus: () => { [model.placeholder, model.value] = [model.value, ""]; },
    blur: () => { model.value ||= model.placeholder; },
  }});
  return [model, h("datalist", {id: "models"})];
};

export const offer = (list, models) => replace(list, options(models.map(({id, owned_by: owner}) => [id, owner])));

const address = (url) => url.replace("smsfile://", "/v1/media/");

const folded = (open, ...title) => h("details", {open}, h("summary", title), h("pre.words"));

const MADE = {
  text: () => h("p.words"),
  reasoning: () => folded(false, "Reasoning"),
  refusal: () => h("p.notice.warn", h("b", "Refused"), h("span.words")),
  call: ({name}) => folded(true, "Tool call ", h("code", name)),
  raw: () => folded(false, "A request of the Reframer, sent as it is"),
  image: ({url, name = "picture"}) => h("img", {src: address(url), alt: name}),
  audio: ({url, name = "sound"}) => h("audio", {controls: true, src: address(url), "aria-label": name}),
  file: ({url, name, mime}) => h("a", {href: address(url), target: "_blank"}, name ?? mime),
};

// Grows what is there: what somebody has unfolded, or listens to, stays as it is.
export const drawParts = (box, parts) => parts.forEach((part, index) => {
  const node = box.children[index] ?? box.appendChild(MADE[part.kind](part));
  const words = node.matches(".words") ? node : node.querySelector(".words");
  if (!words || words.dataset.size > words.textContent.length) return; // cut: it looks the same however much comes
  words.dataset.size = part.text.length;
  if (words.textContent !== part.text) words.textContent = cut(part.text);
});

const side = (kind, mark, value) => value !== undefined && h("div", {class: kind, data: {mark}}, typeof value === "string" ? value : JSON.stringify(value, null, 1));

const changed = (title, changes) => [h("h3", title), changes.length ? changes.map(({path, before, after}) => h(".diff", h(".dim", path), side("removed", "−", before), side("added", "+", after)))
  : h("p.dim", "changed nothing")];

// What the router would do with this call now; of one that was made, also what was kept.
export const upstream = async (from, model, request, id, signal) => {
  const {provider, channel, upstream_model: name, to, path, body, dropped, trace} = await api.post("/v1/translate", {from, model, request, stream: true, trace: true}, {signal});
  const kept = id && await api.get(`/api/logs/${id}/capture`, null, {signal}).catch(() => null);
  return h(".stack",
    h("p.dim", "A dry run: what happens to this call if it is sent now. Secrets of channels are not in it."),
    h("p", h("b", `${provider} / ${channel}`), ` gets ${name} in ${to} at `, h("code", path)),
    h("p", {class: `notice ${dropped.length ? "warn" : "ok"}`}, dropped.length ? `Lossy; left out: ${dropped.join(", ")}` : "Lossless"),
    trace.suffix.length > 0 && changed("The ending of the model's name", trace.suffix),
    trace.rules.length ? trace.rules.map(({rule, transform, changes}, index) => changed(`Rule ${index + 1}: ${transform} (${rule})`, changes)) : h("h3", "No rule applies"),
    h("h3", "Channels"), trace.candidates.map(({provider: one, channel: at, reason}) => h("p", `${one} / ${at ?? "any"}: ${reason}`)),
    h("h3", "Body"), jsonView(body, {open: 3}),
    id && h("h3", kept ? "Kept of the call itself" : "The bodies of the call itself were not kept: its key asks for no capture"), kept && jsonView(kept.body));
};
