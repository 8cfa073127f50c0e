// gemini: a conversation as a request, and the answers of its stream as parts to show.
import { bare, grow, media } from "./wire_parts.js";

const BUDGETS = {none: 0, low: 2048, medium: 8192, high: 16384}; // levels are for newer models only

const written = ({text, url, mime}) => (url ? {inlineData: {mimeType: mime, data: bare(url)}} : {text});

export const build = ({model, system, turns, temperature, maxTokens, effort}) => [`/v1beta/models/${encodeURIComponent(model)}:streamGenerateContent?alt=sse`, {
  systemInstruction: system && {parts: [{text: system}]},
  contents: turns.map(({role, parts}) => ({role: role === "user" ? role : "model", parts: parts.filter(({kind}) => !/reasoning|call/.test(kind)).map(written)})),
  generationConfig: {temperature, maxOutputTokens: maxTokens, thinkingConfig: effort && {thinkingBudget: BUDGETS[effort], includeThoughts: effort !== "none"}},
}];

export const read = (reply, {candidates, promptFeedback, error}) => {
  const {content, finishReason: finish = promptFeedback?.blockReason} = candidates?.[0] ?? {};
  for (const {text, thought, functionCall: call, inlineData: held, fileData: file} of content?.parts ?? []) {
    if (held) reply.parts.push(media(held.mimeType, `data:${held.mimeType};base64,${held.data}`));
    else if (file) reply.parts.push(media(file.mimeType, file.fileUri));
    else if (call) reply.parts.push({kind: "call", name: call.name, text: JSON.stringify(call.args)});
    else grow(reply, thought ? "reasoning" : "text", text);
  }
  Object.assign(reply, finish && {finish}, error && {error: error.message});
};
