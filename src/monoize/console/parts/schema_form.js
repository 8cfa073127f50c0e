// A form drawn from a JSON Schema.
//   const form = schemaForm(schema, value); box.append(form.element)
//   form.value() -> what is set; what was left empty is left out (null, if it had a value and may be null)
//   form.check() -> true, or shows what is missing or wrong and is false
//   form.show(apiError | [{path: "a.b[0]", message}])   puts the server's sentence at its field
// Knows object, map, string, enum, const, number, integer, boolean, array, $ref, anyOf/oneOf with null; anything else is edited as JSON.

import { button, h, replace } from "../core/dom.js";

const PLAIN = ["string", "number", "integer"];
const KINDS = {
  string: {parse: (text) => text},
  number: {parse: Number, type: "number"},
  lines: {show: (value) => value.join("\n"), parse: (text) => text.split("\n").map((line) => line.trim()).filter(Boolean), hint: "one a line", isLong: true},
  json: {show: (value) => JSON.stringify(value, null, 2), parse: JSON.parse, hint: "JSON", isLong: true},
};
let made = 0;
const words = (name) => (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ");
const isSet = (value) => value !== undefined && value !== null;

const settled = (schema, root) => {
  let found = schema;
  while (found.$ref) {
    const {$ref, ...own} = found;
    found = {...$ref.split("/").slice(1).reduce((at, name) => at?.[name], root), ...own};
  }
  const {anyOf, oneOf = anyOf, ...one} = found;
  if (Array.isArray(one.required)) one.needed = one.required; // `required` itself says whether this field is
  if (Array.isArray(one.type)) return {...one, type: one.type.find((type) => type !== "null"), nullable: one.type.includes("null")};
  if (!oneOf) return one;
  const variants = oneOf.filter(({type}) => type !== "null").map((each) => settled(each, root));
  const nullable = variants.length < oneOf.length;
  const isScalar = variants.every((each) => PLAIN.includes(each.type) && !each.enum);
  return variants.length === 1 || isScalar ? {...variants[0], ...one, nullable} : {...one, variants, nullable};
};

export const schemaForm = (schema, value) => {
  const places = new Map(); // path -> {input, error}
  let faults = [];
  const rest = h("p.bad", {role: "alert"});
  const inner = (one) => settled(one, schema);
  const left = (one, initial) => (one.nullable && initial !== undefined ? null : undefined);

  const field = (name, one, path, input, around = input) => {
    const id = `field-${made += 1}`;
    const error = h("span.error", {id: `${id}-error`, role: "alert"});
    input.id = id;
    input.setAttribute("aria-describedby", `${id}-hint ${id}-error`);
    places.set(path, {input, error});
    return h(".field", h("label", {for: id, class: input.type === "checkbox" ? "check" : "label"}, input.type === "checkbox" && input, name, one.required && input.required && h("span.dim", " (needed)")),
      input.type !== "checkbox" && around, h("span.hint", {id: `${id}-hint`}, one.description), error);
  };
  const typed = (name, one, initial, path, kind) => {
    const {parse, show = String, type = "text", hint, isLong = (initial?.length > 60 || /text|prompt|content/i.test(name)) && kind === KINDS.string} = kind;
    const input = h(isLong ? "textarea" : "input", {type: !isLong && type, rows: isLong && 3, class: kind === KINDS.json && "mono", required: one.required && (kind !== KINDS.lines || one.minItems), spellcheck: "false",
      step: one.type === "number" && "any", min: one.minimum, max: one.maximum, pattern: !isLong && one.pattern, minlength: one.minLength, maxlength: one.maxLength,
      placeholder: hint ?? one.default ?? one.examples?.[0], ".value": isSet(initial) ? show(initial) : ""});
    const read = () => {
      if (input.value.trim() === "" && !one.required) return left(one, initial);
      try {
        if (!input.checkValidity()) throw new Error(input.validationMessage);
        return parse(input.value);
      } catch (error) {
        faults.push({path, message: error.message});
        return undefined;
      }
    };
    return {element: field(name, one, path, input), read};
  };
  const choice = (name, one, initial, path) => {
    const options = one.enum ?? (one.type === "boolean" ? [true, false] : [one.const]);
    const none = one.required ? "choose" : isSet(one.default) ? `not set (${one.default})` : "not set";
    const input = h("select", {required: one.required}, h("option", {value: ""}, none), options.map((option, at) => h("option", {value: at}, String(option))));
    const at = options.indexOf(initial);
    input.value = at < 0 ? (one.const === undefined ? "" : "0") : String(at);
    const read = () => {
      if (!input.checkValidity()) faults.push({path, message: input.validationMessage});
      return input.value === "" ? left(one, initial) : options[Number(input.value)];
    };
    return {element: field(name, one, path, input), read};
  };
  const tick = (name, one, initial, path) => {
    const input = h("input", {type: "checkbox", ".checked": initial ?? one.default ?? false});
    return {element: field(name, one, path, input), read: () => (input.checked === one.default && initial === undefined && !one.required ? undefined : input.checked)};
  };
  // Entries of a list, or of a map (then each has a name).
  const rows = (name, one, initial, path, each, isMap) => {
    const box = h(".stack");
    let entries = [];
    const add = (given, key) => {
      const named = isMap && h("input", {"aria-label": `${name}: name`, placeholder: "name", ".value": key});
      const part = control(isMap ? "" : `${name} ${entries.length + 1}`, {...each, required: true}, given, isMap ? `${path}.${key}` : `${path}[${entries.length}]`);
      const row = h(".row", named, h(".grow", part.element), button("Remove", () => {
        entries = entries.filter((other) => other !== entry);
        row.remove();
      }, "small quiet"));
      const entry = {part, named};
      entries.push(entry);
      box.append(row);
    };
    for (const [key, given] of Object.entries(initial ?? {})) add(given, key);
    const more = button("Add", () => add(each.default, ""), "small");
    const read = () => {
      if (!entries.length && !isSet(initial) && !one.required) return undefined;
      const found = entries.map(({part, named}) => [named.value, part.read()]);
      return isMap ? Object.fromEntries(found) : found.map(([, got]) => got);
    };
    return {element: field(name, one, path, more, h(".stack", box, h("div", more))), read};
  };
  const object = (name, one, initial, path) => {
    const parts = Object.entries(one.properties).map(([key, each]) => [key, control(words(key), {...inner(each), required: !!one.needed?.includes(key)}, initial?.[key], path ? `${path}.${key}` : key)]);
    const read = () => {
      const found = Object.fromEntries(parts.map(([key, part]) => [key, part.read()]).filter(([, got]) => got !== undefined));
      return Object.keys(found).length || one.required || initial ? found : undefined;
    };
    const inside = parts.map(([, part]) => part.element);
    if (!path) return {element: h(".stack", inside), read};
    const group = h("fieldset.group", {"aria-label": name}, one.description && h("span.dim.small", one.description), inside);
    return {element: h("details", {open: one.required || Object.values(initial ?? {}).some(isSet)}, h("summary", name), group), read};
  };
  const either = (name, one, initial, path) => {
    const fits = (variant) => (variant.enum ? variant.enum.includes(initial) : variant.type === (Array.isArray(initial) ? "array" : typeof initial));
    const box = h("div");
    let part = null;
    const draw = (given) => {
      part = pick.value === "" ? null : control(name, {...one.variants[Number(pick.value)], required: true}, given, path);
      replace(box, part?.element);
    };
    const pick = h("select", {on: {change: () => draw()}}, h("option", {value: ""}, "not set"), one.variants.map((variant, at) => h("option", {value: at}, variant.title ?? (variant.enum ? "one of…" : variant.type ?? "JSON"))));
    const at = isSet(initial) ? one.variants.findIndex(fits) : -1;
    pick.value = at < 0 ? "" : String(at);
    const element = field(name, one, path, pick, h(".stack.tight", pick, box));
    draw(initial);
    return {element, read: () => (part ? part.read() : left(one, initial))};
  };
  const control = (name, one, initial, path) => {
    const given = [name, one, initial, path];
    if (one.variants) return either(...given);
    if (one.enum || one.const !== undefined || (one.type === "boolean" && one.nullable)) return choice(...given);
    if (one.type === "boolean") return tick(...given);
    if (PLAIN.includes(one.type)) return typed(...given, one.type === "string" ? KINDS.string : KINDS.number);
    if (one.type === "object" && one.properties) return object(...given);
    const isMap = one.type === "object" && typeof one.additionalProperties === "object";
    const each = isMap ? inner(one.additionalProperties) : one.type === "array" && one.items && inner(one.items);
    if (each?.type === "string" && !isMap) return typed(...given, KINDS.lines);
    return each ? rows(...given, each, isMap) : typed(...given, KINDS.json);
  };
  const show = (given) => {
    rest.textContent = "";
    for (const {input, error} of places.values()) {
      error.textContent = "";
      input.removeAttribute("aria-invalid");
    }
    for (const {path, message} of Array.isArray(given) ? given : [{path: given.param ?? "", message: given.message}]) {
      let at = path;
      while (at && !places.has(at)) at = at.replace(/(\.[^.[]*|\[[^[]*|^[^.[]+)$/, "");
      const place = places.get(at);
      (place?.error ?? rest).textContent = message;
      place?.input.setAttribute("aria-invalid", "true");
      place?.input.focus();
    }
  };
  const top = control("", {...inner(schema), required: true}, value, "");
  const read = () => {
    faults = [];
    return top.read();
  };
  const check = () => {
    read();
    show(faults);
    return !faults.length;
  };
  return {element: h(".stack", top.element, rest), value: read, show, check};
};
