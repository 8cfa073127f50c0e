// A JSON value to look into: jsonView(value, {open: 2}) -> element; so many levels are open.

import { button, h } from "../core/dom.js";

const LONGEST = 2000;

const leaf = (value) => {
  const kind = value === null ? "null" : typeof value;
  const text = JSON.stringify(value) ?? "";
  if (text.length <= LONGEST) return h("span", {class: kind}, text);
  const rest = button(`… ${text.length - LONGEST} more`, () => rest.parentElement.replaceChildren(text), "small quiet");
  return h("span", {class: kind}, text.slice(0, LONGEST), rest);
};

const node = (name, value, open) => {
  const key = name !== null && [h("span.key", name), ": "];
  const isList = Array.isArray(value);
  const entries = value && typeof value === "object" ? Object.entries(value) : null;
  if (!entries?.length) return h(".leaf", key, entries ? (isList ? "[]" : "{}") : leaf(value));
  const inside = h("div");
  const fill = () => inside.childElementCount || inside.append(...entries.map(([inner, one]) => node(inner, one, open - 1)));
  if (open > 0) fill();
  return h("details", {open: open > 0, on: {toggle: fill}}, h("summary", key, h("span.dim", isList ? `[${entries.length}]` : `{${entries.length}}`)), inside);
};

export const jsonView = (value, {open = 2} = {}) => h(".json", node(null, value, open));
