// The command palette: everything by name.

import { h, replace } from "./dom.js";
import { api } from "./api.js";

const LARGEST = 40;
const IDS = {req: "/requests/", run: "/runs/"};
// What else has a name: where it is listed, what it is called, and its page.
const LISTS = [
  ["/v1/models", "model", (model) => model.id, "/chat?model="],
  ["/api/keys?limit=200", "key", (key) => key.name, "/keys/"],
  ["/v1/agent/runs?limit=20", "run", (run) => run.run_id, "/runs/"],
];

const listed = async ([path, hint, name, page]) => (await api.get(path, null, {quiet: true})).data.map((one) => ({label: name(one), hint, href: page + encodeURIComponent(one.id ?? one.run_id)}));

const isNamed = (text) => {
  const words = text.toLowerCase().split(/\s+/);
  return (entry) => words.every((word) => `${entry.label} ${entry.hint}`.toLowerCase().includes(word));
};

// An id that was pasted leads straight to its page.
const byId = (text) => {
  const kind = /^(req|run)_\w+$/.exec(text)?.[1];
  return kind ? [{label: text, hint: kind === "req" ? "request" : kind, href: IDS[kind] + text}] : [];
};

export const open = ({links, themes, setTheme, go}) => {
  if (document.querySelector(".palette")) return;
  const commands = [...links.map((link) => ({label: link.textContent, hint: "page", href: link.pathname})),
    {label: "API reference", hint: "page", run: () => location.assign("/docs")},
    ...themes.map((name) => ({label: `Theme: ${name}`, hint: "action", run: () => setTheme(name)}))];
  let shown = [];
  let at = 0;
  const list = h("div", {id: "palette-list", role: "listbox", "aria-label": "Found"});
  const choose = (entry) => {
    dialog.close();
    if (entry.href) go(entry.href);
    else entry.run();
  };
  const mark = () => {
    [...list.children].forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
    input.setAttribute("aria-activedescendant", shown.length ? `palette-${at}` : "");
    list.children[at]?.scrollIntoView({block: "nearest"});
  };
  const draw = () => {
    shown = [...byId(input.value.trim()), ...commands.filter(isNamed(input.value))].slice(0, LARGEST);
    at = Math.min(at, Math.max(0, shown.length - 1));
    replace(list, shown.map((entry, index) => h("div", {id: `palette-${index}`, role: "option", on: {click: () => choose(entry)}},
      h("span.clip", entry.label), h("span.dim", entry.hint))));
    replace(none, !shown.length && "Nothing of that name.");
    mark();
  };
  const onKey = (event) => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (!shown.length || !(step || event.key === "Enter")) return;
    event.preventDefault();
    if (!step) {
      choose(shown[at]);
      return;
    }
    at = (at + step + shown.length) % shown.length;
    mark();
  };
  const onInput = () => {
    at = 0;
    draw();
  };
  const input = h("input", {type: "text", role: "combobox", placeholder: "Page, model, key, run, request id", "aria-label": "Go to", "aria-controls": "palette-list", "aria-expanded": "true", autocomplete: "off", spellcheck: "false", on: {input: onInput, keydown: onKey}});
  const none = h("p.dim", {role: "status"});
  const dialog = h("dialog.palette", {"aria-label": "Go to", on: {click: (event) => event.target === dialog && dialog.close(), close: () => dialog.remove()}}, input, list, none);
  document.body.append(dialog);
  dialog.showModal();
  draw();
  for (const list of LISTS) {
    listed(list).then((found) => {
      commands.push(...found);
      if (dialog.open) draw();
    }, () => {}); // what cannot be listed is not found by name
  }
};
