// chat_completion: a conversation as a request, and the chunks of its stream as parts to show.
import { contents, grow, inputAudio, media } from "./wire_parts.js";

const written = ({kind, text, url, mime, name}) => ({
  text: {type: "text", text},
  image: {type: "image_url", image_url: {url}},
  audio: inputAudio(url, mime),
  file: {type: "file", file: {filename: name, file_data: url}},
})[kind];

export const build = ({model, system, turns, temperature, maxTokens, effort}) => ["/v1/chat/completions", {
  model,
  messages: contents([...(system ? [{role: "system", parts: [{kind: "text", text: system}]}] : []), ...turns], written),
  temperature,
  max_completion_tokens: maxTokens,
  reasoning_effort: effort,
  stream: true,
}];

export const read = (reply, {choices, error}) => {
  const {delta = {}, finish_reason: finish} = choices?.[0] ?? {};
  grow(reply, "reasoning", delta.reasoning_content ?? delta.reasoning);
  grow(reply, "text", delta.content);
  grow(reply, "refusal", delta.refusal);
  for (const {index, function: called} of delta.tool_calls ?? []) grow(reply, "call", called?.arguments, index, called?.name);
  for (const {image_url: {url}} of delta.images ?? []) reply.parts.push(media("image/png", url));
  if (delta.audio?.data) reply.parts.push(media("audio/wav", `data:audio/wav;base64,${delta.audio.data}`));
  Object.assign(reply, finish && {finish}, error && {error: error.message});
};
