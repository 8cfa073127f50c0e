// Boot, router, navigation, theme and the way to the palette. A page is pages/<first segment of the path>.js.

import { $, button, h, options, replace } from "./dom.js";
import { UNREACHED, api, setCsrf } from "./api.js";
import { failed } from "../parts/states.js";

const THEMES = ["system", "light", "dark"];
const LOOK_MS = 3000;
const root = document.documentElement;
const main = $("#main");
let session = null;
let leave = () => {};
let visit = 0;
let lost = null; // what is said while the gateway cannot be reached

const links = [...document.querySelectorAll(".nav a")];
const known = ["/sign-in", ...links.map((link) => link.pathname)];
const isPage = (path) => known.includes(`/${path.split("/")[1]}`);

const markCurrent = (path) => {
  for (const link of links) {
    if (link.pathname === `/${path.split("/")[1]}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
};

const openMenu = (open) => {
  root.toggleAttribute("data-menu", open);
  $(".menu").setAttribute("aria-expanded", String(open));
};

const remember = (changes) => {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "" || value === false) query.delete(name);
    else query.set(name, value);
  }
  history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
  return query;
};

const imported = (name) => import(`../pages/${name}.js`).then((module) => module.default, () => {
  throw new Error("The files of this page cannot be had. Is the gateway still running?");
});

const show = async ({focus = true} = {}) => {
  const mine = visit += 1;
  leave();
  const leaving = new AbortController();
  let cleanup = null;
  leave = () => {
    leaving.abort();
    cleanup?.();
  };
  const path = location.pathname;
  const [, segment, id] = path.split("/");
  openMenu(false);
  markCurrent(path);
  root.toggleAttribute("data-bare", path === "/sign-in");
  const page = h(".page");
  try {
    const ctx = {params: id ? {id: decodeURIComponent(id)} : {}, query: new URLSearchParams(location.search), session, go, remember, reload: () => show({focus: false}), signal: leaving.signal, get: (path, query) => api.get(path, query, {signal: leaving.signal})};
    if (!isPage(path)) throw new Error(`there is no page at ${path}`);
    const module = await imported(segment || "overview");
    if (mine !== visit) return;
    document.title = `${module.title} · Monoize`;
    replace(main, page);
    if (focus) {
      main.focus({preventScroll: true});
      scrollTo(0, 0);
    }
    const done = await module.show(page, ctx);
    if (mine === visit) cleanup = done;
    else done?.();
  } catch (error) {
    if (mine !== visit || error.name === "AbortError") return;
    // A module that does not load may be one of another version of the gateway: a full load brings the new one, if there is one.
    const reload = () => api.get("/api/session", null, {quiet: true}).then(() => location.reload(), () => {});
    replace(main, h(".page", h("h1", "This page did not open"), failed(error, error.name === "ApiError" ? () => show({focus: false}) : reload)));
  }
};

export const go = (path, {instead = false} = {}) => {
  history[instead ? "replaceState" : "pushState"](null, "", path);
  return show();
};

const followLink = (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin || !isPage(link.pathname)) return;
  if (link.hash && link.pathname === location.pathname) return;
  event.preventDefault();
  go(link.pathname + link.search);
};

const setTheme = (name) => {
  if (name === "system") {
    delete root.dataset.theme;
    localStorage.removeItem("theme");
  } else localStorage.setItem("theme", root.dataset.theme = name);
  drawFoot();
};

const signOut = async () => {
  use(await api.del("/api/session", {quiet: true}));
  go("/sign-in");
};

const drawFoot = () => replace($(".foot"),
  session.notice && h("p.dim.small", session.notice),
  session.username && h(".row", h("span.clip.grow", {title: session.username}, session.username), h("span.dim", session.role)),
  ["password", "key"].includes(session.how) && button("Sign out", signOut, "small"),
  h("label", h("span.dim", "Theme"),
    h("select", {".value": root.dataset.theme ?? "system", on: {change: (event) => setTheme(event.target.value)}}, options(THEMES))));

const use = (found) => {
  session = found;
  setCsrf(found.csrf);
  root.dataset.role = found.role ?? "";
  drawFoot();
};

/** Take over a session (after signing in) and go on. */
export const enter = (found, path = "/") => {
  use(found);
  return go(path, {instead: true});
};

const toSignIn = () => {
  if (location.pathname === "/sign-in") return;
  const next = location.pathname + location.search;
  go(next === "/" ? "/sign-in" : `/sign-in?next=${encodeURIComponent(next)}`, {instead: true});
};

const onUnreached = () => {
  if (lost) return;
  lost = h("p.toast.bad", UNREACHED);
  $(".toasts").append(lost);
  setTimeout(lookAgain, LOOK_MS);
};

const lookAgain = () => lost && api.get("/api/session", null, {quiet: true}).catch(() => setTimeout(lookAgain, LOOK_MS));

const onReached = () => {
  lost?.remove();
  lost = null;
};

const openPalette = async () => (await import("./palette.js")).open({links: links.filter((link) => session.role === "admin" || link.className !== "for-admins"), go, themes: THEMES, setTheme});

const onKey = (event) => {
  if (event.key === "Escape") openMenu(false);
  if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  event.preventDefault();
  openPalette();
};

// Behind a link from another site the browser keeps the cookie to itself: the page asks again, by itself.
const arrived = async () => {
  const given = JSON.parse($("#session").textContent);
  if (given.signed_in) return given;
  const found = await api.get("/api/session", null, {quiet: true});
  return !found.signed_in && found.ways.some((way) => way === "local" || way === "proxy") ? api.post("/api/session", {}, {quiet: true}) : found;
};

const boot = async () => {
  document.addEventListener("click", followLink);
  document.addEventListener("keydown", onKey);
  window.addEventListener("popstate", () => show());
  window.addEventListener("signed-out", toSignIn);
  window.addEventListener("unreached", onUnreached);
  window.addEventListener("reached", onReached);
  $(".menu").addEventListener("click", () => openMenu(!root.hasAttribute("data-menu")));
  $(".find").addEventListener("click", openPalette);
  try {
    use(await arrived());
  } catch (error) {
    replace(main, h("h1", "The console did not start"), failed(error, () => location.reload()));
    return;
  }
  if (session.signed_in || location.pathname === "/sign-in") await show({focus: false});
  else toSignIn();
};

boot();
