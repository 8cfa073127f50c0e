// The public API as the console calls it: JSON in and out, errors with the server's sentence, event streams.
//   await api.get("/api/logs", {limit: 50}, {signal})    await api.post(path, body)    put, patch, del
//   for await (const {event, id, data} of api.events("/v1/messages", {method: "POST", body, headers, signal}))
//   const response = await api.raw("/v1/media", {method: "POST", body: file})   // as fetch, but a refusal throws; quiet: true keeps a 401 from bringing the sign-in page

export const UNREACHED = "The gateway cannot be reached. Is it still running?";
let csrf = "";

const tell = (name) => window.dispatchEvent(new Event(name));

export const setCsrf = (token) => {
  csrf = token ?? "";
};

class ApiError extends Error {
  constructor(message, {status = 0, code = null, param = null, body = null, id = null} = {}) {
    super(message);
    Object.assign(this, {name: "ApiError", status, code, param, body, id});
  }
}

export const withQuery = (path, query) => {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
};

const refusal = async (response) => {
  let body = null;
  try {
    body = await response.json();
  } catch {
    // Not ours, perhaps a proxy's page: its status has to do.
  }
  const {message = body?.message ?? `the server answered ${response.status}`, code, type, status, param = null} = body?.error ?? body?.errors?.[0] ?? {};
  return new ApiError(message, {status: response.status, code: code ?? type ?? status, param, body, id: response.headers.get("x-request-id")});
};

// Two tabs opened at the same moment may share a later session: its token is asked for once, and the call repeated.
const raw = async (path, options = {}) => {
  try {
    return await sent(path, options);
  } catch (error) {
    if (error.code !== "csrf_needed") throw error;
    setCsrf((await (await sent("/api/session", {quiet: true})).json()).csrf);
    return sent(path, options);
  }
};

const sent = async (path, {method = "GET", body, headers: given, signal, quiet = false} = {}) => {
  const headers = new Headers(given);
  const isJson = body?.constructor === Object || Array.isArray(body);
  if (isJson && !headers.has("content-type")) headers.set("content-type", "application/json");
  if (method !== "GET") headers.set("x-monoize-csrf", csrf);
  let response;
  try {
    response = await fetch(path, {method, headers, signal, body: isJson ? JSON.stringify(body) : body});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    tell("unreached");
    throw new ApiError(UNREACHED);
  }
  tell("reached");
  if (response.ok) return response;
  if (response.status === 401 && !quiet) tell("signed-out");
  throw await refusal(response);
};

const json = async (path, options) => {
  const text = await (await raw(path, options)).text();
  return text ? JSON.parse(text) : null;
};

const readEvent = (block) => {
  const found = {event: "message", id: null};
  const lines = [];
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w+)(?:: ?(.*))?$/.exec(line) ?? [];
    if (name === "data") lines.push(value ?? "");
    else if (name in found) found[name] = value;
  }
  return (lines.length || found.event !== "message") && {...found, data: lines.join("\n")};
};

async function* events(path, options = {}) {
  const response = await raw(path, {...options, headers: {accept: "text/event-stream", ...options.headers}});
  options.opened?.(response); // its headers
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  try {
    for (let isDone = false; !isDone;) {
      const {value, done} = await reader.read();
      isDone = done;
      left = `${left}${done ? "\n\n" : value}`.replaceAll("\r\n", "\n");
      const blocks = left.split("\n\n");
      left = blocks.pop();
      yield* blocks.map(readEvent).filter(Boolean);
    }
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError("The connection to the gateway broke off.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

const sender = (method) => (path, body = {}, options = {}) => json(path, {...options, method, body});

export const api = {
  raw,
  events,
  get: (path, query, options) => json(withQuery(path, query), options),
  post: sender("POST"),
  put: sender("PUT"),
  patch: sender("PATCH"),
  del: (path, options) => json(path, {...options, method: "DELETE"}),
};
