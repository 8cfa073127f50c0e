// Sign in with a password or a key; whoever is let in without one is not asked.

import { button, field, h, replace } from "../core/dom.js";
import { api } from "../core/api.js";
import { enter } from "../core/app.js";
import { failed } from "../parts/states.js";

const input = (name, type, autocomplete) => h("input", {name, type, autocomplete, required: true, autocapitalize: "none"});

const FORMS = {
  password: () => [field("Username", input("username", "text", "username")), field("Password", input("password", "password", "current-password"))],
  key: () => field("API key", input("key", "password", "off")),
};

const show = async (page, {query}) => {
  // Only a path of our own: a link must not lead elsewhere after signing in.
  const next = /^\/(?![/\\])/.test(query.get("next") ?? "") ? query.get("next") : "/";
  const session = await api.get("/api/session", null, {quiet: true});
  if (session.signed_in) return enter(session, next);
  const box = h(".card.stack");
  const send = async (credentials, problem) => {
    try {
      await enter(await api.post("/api/session", credentials, {quiet: true}), next);
    } catch (error) {
      replace(problem, failed(error));
    }
  };
  const draw = (way) => {
    const problem = h("div", {"aria-live": "polite"});
    const other = {password: "key", key: "password"}[way];
    const itself = ["local", "proxy"].find((one) => session.ways.includes(one));
    const submit = (event) => {
      event.preventDefault();
      return send(Object.fromEntries(new FormData(event.target)), problem);
    };
    replace(box, h("form.stack", {on: {submit}}, FORMS[way](), problem, h("button.primary", {type: "submit"}, "Sign in")),
      itself && button("Go on without", () => send({}, problem)),
      session.ways.includes(other) && button(`Use ${other === "key" ? "an API key" : "a password"} instead`, () => draw(other), "quiet"));
    box.querySelector("input").focus();
  };
  page.append(h("h1", "Sign in to Monoize"), box,
    !session.ways.includes("password") && h("p.dim", "Nobody has a password yet. On the gateway's machine: ", h("code", "monoize users create NAME --role admin --password")) || "");
  draw(session.ways.includes("password") ? "password" : "key");
  return null;
};

export default {title: "Sign in", show};
