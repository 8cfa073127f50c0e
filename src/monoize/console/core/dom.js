// Elements from values. Text only ever becomes text: there is no way from a string to markup here.
//   h("a.strong", {href: "/", on: {click: fn}, data: {id: 1}, style: {"--w": "3px"}, ".value": v}, "text", node, [more], null)
//   h(".card.flush", …) is a div with these classes; the properties may be left out: h("h2", "Title")
//   button("Save", onClick, "primary small", {more props})   field("Name", input, "a hint")   svg("path", {d: "…"})   replace(parent, ...children)   $(selector, within)

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

export const svg = (tag, ...rest) => build((name) => document.createElementNS(SVG, name), tag, rest);

export const replace = (parent, ...children) => {
  parent.replaceChildren(...nodes(children));
  return parent;
};

export const $ = (selector, within = document) => within.querySelector(selector);
