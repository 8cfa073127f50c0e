// Users: their role, password, prepaid balance and keys. For admins.

import { button, field, h } from "../core/dom.js";
import { api } from "../core/api.js";
import { usd } from "../core/format.js";
import { confirm, form } from "../parts/dialog.js";
import { empty, load, toast } from "../parts/states.js";
import { table } from "../parts/table.js";

const choice = (name, value, options) => h("select", {name, ".value": String(value)}, Object.entries(options).map(([one, text]) => h("option", {value: one}, text)));

const edit = async (user, again) => {
  const path = user && `/api/users/${user.id}`;
  const {balance = null, has_password: knows = false} = user ?? {};
  const remove = async () => {
    if (await confirm({title: `Delete ${user.username}?`, text: "All keys of this user end at once. The ledger and the log keep what was.", action: "Delete", danger: true})) {
      await api.del(path).then(() => document.querySelector("dialog")?.close(), (error) => toast(error.message, "bad"));
      again();
    }
  };
  const submit = async (data) => {
    const {enabled, amount, password, ...body} = Object.fromEntries(data);
    const nano = amount && Math.round(amount * 1e9);
    Object.assign(body, {enabled: enabled === "true"}, password && {password}, nano && balance === null && {balance: nano});
    if (nano && balance !== null) await api.post(`${path}/balance`, {delta: nano, reason: "booked in the console"});
    return user ? api.patch(path, body) : api.post("/api/users", body);
  };
  const body = [
    field("Username", h("input", {name: "username", required: true, autocomplete: "off", ".value": user?.username ?? ""})),
    field("Role", choice("role", user?.role ?? "user", {user: "user: own keys and requests", admin: "admin: everything"})),
    field("State", choice("enabled", user?.enabled ?? true, {true: "on", false: "off: no key of this user works"})),
    field("Password", h("input", {name: "password", type: "password", minlength: "10", autocomplete: "new-password"}), knows ? "a new one ends every session; empty: stays" : "10 characters or more; empty: cannot sign in"),
    field(balance === null ? "Prepaid USD" : `USD to add to ${usd(balance)}`, h("input", {name: "amount", type: "number", step: "any"}), balance === null ? "empty: not prepaid" : "a negative amount is taken"),
    user && h(".bar", knows && button("Remove password", () => api.patch(path, {password: null}).then(again)), button("Delete", remove, "danger")),
  ];
  if (await form({title: user?.username ?? "New user", body, action: user ? "Save" : "Make the user", submit})) again();
};

const show = async (page, ctx) => {
  const make = () => button("New user", () => edit(null, ctx.reload), "primary");
  const box = h("div");
  page.append(h(".head", h("h1", "Users"), make()),
    ctx.session.how === "local" ? h("p.notice.info", "The first user ends the time without sign-in: make it an admin with a password.") : "", box);
  await load(box, async () => {
    const list = table({label: "Users", columns: [
      {title: "User", cell: (user) => button(user.username, () => edit(user, ctx.reload), "quiet small")},
      {title: "Role", cell: (user) => user.role},
      {title: "State", cell: ({enabled}) => h("span", {class: `badge ${enabled ? "ok" : ""}`}, enabled ? "on" : "off")},
      {title: "Signs in", cell: (user) => (user.has_password ? "with a password" : "–"), wide: true},
      {title: "Left", cell: ({balance}) => (balance === null ? "not prepaid" : usd(balance)), num: true},
      {title: "Keys", cell: ({id, username}) => h("a", {href: `/keys?user=${id}`, "aria-label": `Keys of ${username}`}, "Keys")},
    ]});
    const fill = async (after) => {
      const {data, next} = await ctx.get("/api/users", {limit: 100, after});
      if (after) list.add(data);
      else list.set(data, empty("No users yet", "Whoever sits at this machine is an admin until the first one is made.", make()));
      list.more(next && (() => fill(next)));
    };
    await fill();
    return list.element;
  }, 8);
};

export default {title: "Users", show};
