// Where each value of a JSON text stands, by the paths of the Reframer's findings. Lenient: the gateway judges, not this.
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"?|[[\]{},:]|[^\s[\]{},:"]+/gs;

const below = (path, name) => {
  if (typeof name === "number") return `${path}[${name}]`;
  return /^[a-z_$][\w$-]*$/i.test(name) ? `${path && `${path}.`}${name}` : `${path}[${JSON.stringify(name)}]`;
};

const unquoted = (written) => {
  try {
    return JSON.parse(written);
  } catch {
    return written.slice(1, -1);
  }
};

// path -> {value: [from, to], name: [from, to]}; a name given twice is where it stands last.
export const places = (text) => {
  const found = new Map();
  const open = [];
  for (const {0: piece, index: at} of text.matchAll(TOKEN)) {
    const top = open.at(-1);
    const span = [at, at + piece.length];
    if (piece === ",") top && Object.assign(top, {step: top.isObject ? undefined : top.step + 1});
    else if (piece === "]" || piece === "}") {
      const closed = open.pop();
      if (closed) closed.value[1] = at + 1;
    } else if (top?.isObject && top.step === undefined && piece[0] === '"') Object.assign(top, {step: unquoted(piece), span});
    else if (piece !== ":") {
      const path = top ? below(top.path, top.step ?? "") : "";
      found.set(path, {value: span, name: top?.span});
      if (piece === "[" || piece === "{") open.push({path, value: span, isObject: piece === "{", step: piece === "{" ? undefined : 0});
    }
  }
  return found;
};

// The piece of the text that a finding is about. Its line and column count characters, a browser counts UTF-16 units.
export const spanOf = (text, {field_path: path, error_code: code, details: {line, column, keyword} = {}}, found = places(text)) => {
  if (line) {
    const lines = text.split("\n");
    const at = lines.slice(0, line - 1).join("\n").length + (line > 1) + [...lines[line - 1]].slice(0, column - 1).join("").length;
    return [at, Math.min(at + 1, text.length)];
  }
  const {value, name} = found.get(path) ?? {value: [0, 0]};
  return ((code === "JSON_DUPLICATE_KEY" || keyword === "additionalProperties") && name) || value;
};

// Line and column from 1, and at most `width` letters of the line around the place.
export const lineAt = (text, at, width = 96) => {
  const lines = text.slice(0, at).split("\n");
  const column = lines.at(-1).length;
  const whole = text.slice(at - column).split("\n", 1)[0];
  const first = Math.max(0, Math.min(column - width / 2, whole.length - width));
  return {line: lines.length, column: column + 1, excerpt: whole.slice(first, first + width).replace(/\s/g, " "), caret: column - first};
};
