// messages: a conversation as a request, and the events of its stream as parts to show.
import { bare, contents, grow } from "./wire_parts.js";

const written = ({kind, text, url, mime, name}) => (kind === "text" ? {type: kind, text} : {
  type: kind === "image" ? kind : "document",
  source: {type: "base64", media_type: mime, data: bare(url)},
  title: kind === "image" ? undefined : name,
});

export const build = ({model, system, turns, temperature, maxTokens = 4096, effort}) => ["/v1/messages", {
  model,
  max_tokens: maxTokens,
  system,
  messages: contents(turns, written),
  temperature,
  ...(effort && (effort === "none" ? {thinking: {type: "disabled"}} : {thinking: {type: "adaptive", display: "summarized"}, output_config: {effort}})),
  stream: true,
}];

const GROWS = {text: "text", thinking: "reasoning", tool_use: "call", input_json: "call"};

export const read = (reply, {index, content_block: block, delta, error}) => {
  const {type = "", name, text, thinking, partial_json: json, stop_reason: finish} = block ?? delta ?? {};
  const kind = GROWS[type.replace("_delta", "")];
  if (kind) grow(reply, kind, text ?? thinking ?? json, index, name);
  Object.assign(reply, finish && {finish}, error && {error: error.message});
};
