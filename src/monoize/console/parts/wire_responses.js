// responses: a conversation as a request, and the events of its stream as parts to show.
import { contents, grow, inputAudio, media } from "./wire_parts.js";

const written = ({kind, text, url, mime, name}) => ({
  text: {type: "input_text", text},
  image: {type: "input_image", image_url: url},
  audio: inputAudio(url, mime),
  file: {type: "input_file", filename: name, file_data: url},
})[kind];

export const build = ({model, system, turns, temperature, maxTokens, effort}) => ["/v1/responses", {
  model,
  instructions: system,
  input: contents(turns, written),
  temperature,
  max_output_tokens: maxTokens,
  reasoning: effort && {effort, summary: "auto"},
  store: false,
  stream: true,
}];

const GROWS = {output_text: "text", refusal: "refusal", reasoning_text: "reasoning", reasoning_summary_text: "reasoning", function_call_arguments: "call"};

export const read = (reply, {type, delta, item, item_id: id, response, message}) => {
  const [, what, phase] = type.split(".");
  if (phase === "delta" && GROWS[what]) grow(reply, GROWS[what], delta, id);
  else if (phase === "added" && item?.name) grow(reply, "call", "", item.id, item.name);
  else if (phase === "done" && item?.result) reply.parts.push(media("image/png", `data:image/png;base64,${item.result}`));
  else if (type === "error") reply.error = message;
  else if (response && what !== "created") {
    const {status, incomplete_details: cut, error} = response;
    Object.assign(reply, {finish: cut?.reason ?? status}, error && {error: error.message});
  }
};
