// How things are, as a colour, a shape and a word.
//   light("whole", "ok", title) -> element
//   channelLight(row of /api/health/channels) -> element with the reason as its title; channelState(row) -> {kind, word, reason}
//   status(row.status of a request) -> badge

import { badge, h } from "../core/dom.js";
import { ms } from "../core/format.js";

const KINDS = {success: "ok", error: "bad", interrupted: "bad", cancelled: "warn", pending: "info"};

export const status = (word) => badge(word, KINDS[word]);

export const channelState = (row) => {
  const {reason, health: word, last_success_seconds_ago: last} = row;
  if (row.enabled === false) return {kind: "off", word: "off", reason: reason ?? "switched off"};
  if (word !== "healthy") return {kind: word === "probing" ? "warn" : "bad", word, reason};
  if (!row.eligible || row.resting_seconds > 0) return {kind: "warn", word: "resting", reason};
  if (row.consecutive_failures) return {kind: "warn", word: "failing", reason};
  if (last === null) return {kind: "off", word: "unused", reason: "no call yet"};
  return {kind: "ok", word, reason: reason ?? `last success ${ms(last * 1000)} ago`};
};

export const light = (word, kind, title) => h("span.light", {class: kind, title}, word);

export const channelLight = (row) => {
  const {kind, word, reason} = channelState(row);
  return light(word, kind, reason);
};
