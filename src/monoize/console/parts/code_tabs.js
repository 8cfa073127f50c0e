// Tabs, and tabs of code with a copy button.
//   tabs([{name, draw: () => node}, …], {label, chosen: 0, onChange: (index) => …}) -> element; a tab is drawn when it is first shown
//   codeTabs([{name: "curl", text: "…" | () => "…"}, …], {label})

import { button, h, replace } from "../core/dom.js";
import { cut } from "../core/format.js";
import { copyButton } from "./states.js";

let made = 0;

export const tabs = (entries, {label, chosen = 0, onChange, extra} = {}) => {
  const id = `tabs-${made += 1}`;
  const panel = h("div", {role: "tabpanel", id: `${id}-panel`, tabindex: "0"});
  const drawn = [];
  const show = (index) => {
    chosen = index;
    buttons.forEach((one, i) => {
      one.setAttribute("aria-selected", String(i === index));
      one.tabIndex = i === index ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `${id}-${index}`);
    replace(panel, drawn[index] ??= entries[index].draw());
  };
  const pick = (index) => {
    show(index);
    buttons[index].focus();
    onChange?.(index);
  };
  const onKey = (event) => {
    const to = {ArrowLeft: chosen - 1, ArrowRight: chosen + 1, Home: 0, End: -1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    pick((to + entries.length) % entries.length);
  };
  const buttons = entries.map((entry, index) => button(entry.name, () => pick(index), null, {role: "tab", id: `${id}-${index}`, "aria-controls": `${id}-panel`}));
  show(chosen);
  return h(".stack.tight", h(".row", h(".tabs.grow", {role: "tablist", "aria-label": label, on: {keydown: onKey}}, buttons), extra?.(() => chosen)), panel);
};

export const codeTabs = (entries, {label = "The same as code"} = {}) => {
  const textOf = ({text}) => (typeof text === "function" ? text() : text);
  return tabs(entries.map((entry) => ({name: entry.name, draw: () => h("pre.code", cut(textOf(entry)))})), {label, extra: (chosen) => copyButton(() => textOf(entries[chosen()]))});
};
