// How things are, as a colour, a shape and a word.
//   channelLight(row of /api/health/channels) -> element with the reason as its title; channelState(row) -> {kind, word, reason}
//   status(row.status of a request) -> badge

import { h } from "../core/dom.js";
import { ms } from "../core/format.js";

const KINDS = {success: "ok", error: "bad", interrupted: "bad", cancelled: "warn", pending: "info"};

export const status = (word) => h("span", {class: `badge ${KINDS[word] ?? ""}`}, word);

export const channelState = (row) => {
  const {reason, health: word, last_success_seconds_ago: last} = row;
  if (row.enabled === false) return {kind: "off", word: "off", reason: reason ?? "switched off"};
  if (word !== "healthy") return {kind: word === "probing" ? "warn" : "bad", word, reason};
  if (!row.eligible || row.resting_seconds > 0) return {kind: "warn", word: "resting", reason};
  if (row.consecutive_failures) return {kind: "warn", word: "failing", reason};
  if (last === null) return {kind: "off", word: "unused", reason: "no call yet"};
  return {kind: "ok", word, reason: reason ?? `last success ${ms(last * 1000)} ago`};
};

export const channelLight = (row) => {
  const {kind, word, reason} = channelState(row);
  return h("span", {class: `light ${kind}`, title: reason}, word);
};
