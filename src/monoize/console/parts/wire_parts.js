// What the protocols share: the words and bytes of a turn, and how a streamed part grows.
export const bare = (url = "") => url.replace(/^data:[^,]*,/, "");

const said = (parts) => parts.filter(({kind}) => kind === "text" || kind === "refusal").map(({text}) => text).join("\n\n");

// `user`: how a part of theirs is written; of the assistant's turns only the words go back.
export const contents = (turns, user) => turns.map(({role, parts}) => (
  {role, content: role === "user" && parts.some(({url}) => url) ? parts.map(user) : said(parts)}));

export const inputAudio = (url, mime = "") => (
  {type: "input_audio", input_audio: {data: bare(url), format: mime.replace(/^audio\/(x-)?|;.*/g, "").replace("mpeg", "mp3")}});

// `key` tells parts apart that grow in turns.
export const grow = (reply, kind, text, key, name) => {
  const last = key === undefined ? reply.parts.at(-1) : reply.parts.findLast((part) => part.key === key);
  if (last?.kind === kind) last.text += text ?? "";
  else if (text || name) reply.parts.push({kind, key, name, text: text ?? ""});
};

export const media = (mime, url, name) => ({kind: /^(image|audio)/.exec(mime)?.[0] ?? "file", mime, url, name});
