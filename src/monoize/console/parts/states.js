// What a page shows when it has nothing to show yet.
//   loading(rows = 4)                      a skeleton of so many lines
//   empty("No keys yet", "Make one for each program.", button, …)     what there is none of, and what to do next
//   failed(error, again)                   the server's sentence and "Try again"
//   await load(box, async () => nodes, rows)     skeleton, then the nodes, or the failed state with a retry
//   toast("Saved", "ok" | "bad" | "")      a short word at the corner
//   complain(error)                        its sentence as a toast
//   copyButton(() => text)                 a button that copies

import { $, button, h, replace } from "../core/dom.js";

export const loading = (rows = 4) => h(".stack", {"aria-busy": "true", "aria-label": "Loading"},
  Array.from({length: rows}, () => h(".skeleton")));

export const empty = (title, text, ...next) => h(".empty", h("h2", title), text && h("p.dim", text), next);

export const failed = (error, again) => h(".notice.bad", {role: "alert"},
  h("p.grow", error.message, error.param && h("span.dim", ` (${error.param})`)), again && button("Try again", again, "small"));

export const load = async (box, work, rows) => {
  if (!box.childElementCount) replace(box, loading(rows));
  try {
    replace(box, await work());
  } catch (error) {
    if (error.name !== "AbortError") replace(box, failed(error, () => load(replace(box), work, rows)));
  }
};

export const toast = (text, kind = "") => {
  const note = h("p", {class: `toast ${kind}`}, text);
  $(".toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 4000);
};

export const complain = (error) => toast(error.message, "bad");

export const copyButton = (text, label = "Copy") => {
  const own = button(label, async () => {
    // Browsers give the clipboard to https and localhost only.
    own.textContent = await navigator.clipboard?.writeText(text()).then(() => "Copied", () => "Not allowed") ?? "Not allowed";
    setTimeout(() => { own.textContent = label; }, 1500);
  }, "small quiet");
  return own;
};
