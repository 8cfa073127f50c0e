// Elements from values. Text only ever becomes text: there is no way from a string to markup here.
//   h("a.strong", {href: "/", on: {click: fn}, data: {id: 1}, style: {"--w": "3px"}, ".value": v}, "text", node, [more], null)
//   h(".card.flush", …) is a div with these classes; the properties may be left out: h("h2", "Title")
//   button("Save", onClick, "primary small", {more props})   field("Name", input, "a hint")   svg("path", {d: "…"})   replace(parent, ...children)   $(selector, within)
//   badge("on", "ok")   dim("small grey words")   facts([["Name", value], …]) leaves out what has no value   options(["a", ["b", "text"]]) of a select
//   choices("Time", ["1h", "24h"], "24h", (name) => …)   buttons of which one is pressed

const SVG = "http://www.w3.org/2000/svg";
const ADDRESSES = ["href", "src", "action", "formaction", "poster", "data"];
let made = 0;

const isSafe = (address) => /^data:(image|audio|video)\//i.test(address)
  || (URL.canParse(address, location.href) && /^(https?|blob|mailto):$/.test(new URL(address, location.href).protocol));

const isNothing = (value) => value === null || value === undefined || value === false;

const setAttribute = (element, name, value) => {
  if (/^(on|style$|srcdoc$)/i.test(name)) throw new Error(`${name} is no attribute to set`);
  if (isNothing(value) || (ADDRESSES.includes(name) && !isSafe(String(value)))) return;
  element.setAttribute(name, value === true ? "" : String(value));
};

const SETTERS = {
  on: (element, event, listener) => listener && element.addEventListener(event, listener),
  data: (element, name, value) => isNothing(value) || (element.dataset[name] = value),
  style: (element, name, value) => element.style.setProperty(name, value),
};

const nodes = (children) => children.flat(Infinity).filter((child) => !isNothing(child) && child !== true);

const isProps = (value) => value?.constructor === Object;

const build = (create, given, [first, ...rest], defaults) => {
  const [tag, ...classes] = given.split(".");
  const element = create(tag || "div");
  const children = isProps(first) ? rest : [first, ...rest];
  const props = {...defaults, ...(isProps(first) ? first : null)};
  const late = [];
  if (classes.length) props.class = [...classes, props.class].join(" ").trim();
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith(".")) late.push([name.slice(1), value]);
    else if (SETTERS[name]) for (const [key, one] of Object.entries(value)) SETTERS[name](element, key, one);
    else setAttribute(element, name, value);
  }
  element.append(...nodes(children));
  for (const [name, value] of late) element[name] = value; // a select's value needs its options
  return element;
};

export const h = (tag, ...rest) => build((name) => document.createElement(name), tag, rest, /^button\b/.test(tag) && {type: "button"});

export const button = (text, click, kind, props) => h("button", {class: kind, on: {click}, ...props}, text);

export const field = (label, input, hint) => {
  input.id ||= `own-${made += 1}`;
  return h(".field", h("label", {for: input.id}, label), input, hint && h("span.hint", hint));
};

export const badge = (text, kind) => h("span.badge", {class: kind}, text);

export const dim = (...words) => h("span.dim.small", words);

export const facts = (rows) => h("dl.facts", rows.filter(([, value]) => value || value === 0).map(([name, ...value]) => [h("dt", name), h("dd", value)]));

export const options = (entries) => entries.map((entry) => {
  const [value, text = value] = [entry].flat();
  return h("option", {value}, text);
});

export const choices = (label, names, chosen, onChange) => {
  const mark = (now) => buttons.forEach((one, at) => one.setAttribute("aria-pressed", String(names[at] === now)));
  const buttons = names.map((name) => button(name, () => {
    mark(name);
    onChange(name);
  }));
  mark(chosen);
  return h(".bar.joined", {role: "group", "aria-label": label}, buttons);
};

export const svg = (tag, ...rest) => build((name) => document.createElementNS(SVG, name), tag, rest);

export const replace = (parent, ...children) => {
  parent.replaceChildren(...nodes(children));
  return parent;
};

export const $ = (selector, within = document) => within.querySelector(selector);
