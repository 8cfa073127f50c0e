// What changed between two values, line by line.
//   diff(before, after) -> element; values are shown as JSON, strings as they are. Runs of lines that are the same are folded.

import { h } from "../core/dom.js";

const CONTEXT = 3;
const LARGEST = 4e6; // cells of the table; beyond it the two are shown one after the other
const WORDS = {"+": "added", "−": "removed"};

const linesOf = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "").split("\n");

// The longest common subsequence of what lies between the same beginning and the same end.
const compared = (a, b) => {
  let start = 0;
  while (start < a.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const [left, right] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const wide = right.length + 1;
  const isSmall = left.length * wide < LARGEST;
  const common = new Uint32Array(isSmall ? (left.length + 1) * wide : 0);
  for (let at = left.length * wide - 1; isSmall && at >= 0; at -= 1) {
    const [i, j] = [Math.floor(at / wide), at % wide];
    if (j < right.length) common[at] = left[i] === right[j] ? common[at + wide + 1] + 1 : Math.max(common[at + wide], common[at + 1]);
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    if (isSmall && i < left.length && left[i] === right[j]) found.push([" ", left[i++], j++]);
    else if (i < left.length && (j === right.length || !isSmall || common[(i + 1) * wide + j] >= common[i * wide + j + 1])) found.push(["−", left[i++]]);
    else found.push(["+", right[j++]]);
  }
  const same = (lines) => lines.map((text) => [" ", text]);
  return [...same(a.slice(0, start)), ...found, ...same(a.slice(a.length - end))];
};

export const diff = (before, after) => {
  const lines = compared(linesOf(before), linesOf(after));
  const box = h(".diff", {tabindex: "0", role: "region", "aria-label": "Changes"});
  let folded = 0;
  const unfold = () => {
    if (folded) box.append(h(".dim", {data: {mark: "·"}}, `${folded} ${folded === 1 ? "line" : "lines"} the same`));
    folded = 0;
  };
  lines.forEach(([mark, text], at) => {
    if (!lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(([near]) => near !== " ")) folded += 1;
    else {
      unfold();
      box.append(h("div", {class: WORDS[mark], data: {mark}}, WORDS[mark] && h("span.unseen", `${WORDS[mark]}: `), text));
    }
  });
  unfold();
  return box;
};
