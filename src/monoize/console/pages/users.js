// Users: their role, password, prepaid balance and keys. For admins.

import { $, badge, button, field, h, options } from "../core/dom.js";
import { api } from "../core/api.js";
import { usd } from "../core/format.js";
import { form, sure } from "../parts/dialog.js";
import { complain, empty, load } from "../parts/states.js";
import { table } from "../parts/table.js";

const choice = (name, value, texts) => h("select", {name, ".value": String(value)}, options(Object.entries(texts)));

const edit = async (user, again) => {
  const path = user && `/api/users/${user.id}`;
  const {balance = null, has_password: knows = false} = user ?? {};
  const remove = () => sure({title: `Delete ${user.username}?`, text: "All keys of this user end at once. The ledger and the log keep what was.", action: "Delete"}, async () => {
    await api.del(path);
    $("dialog")?.close();
    again();
  });
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
    user && h(".bar", knows && button("Remove password", () => api.patch(path, {password: null}).then(again, complain)), button("Delete", remove, "danger")),
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
      {title: "State", cell: ({enabled}) => badge(enabled ? "on" : "off", enabled ? "ok" : "")},
      {title: "Signs in", cell: (user) => (user.has_password ? "with a password" : "–"), wide: true},
      {title: "Left", cell: ({balance}) => (balance === null ? "not prepaid" : usd(balance)), num: true},
      {title: "Keys", cell: ({id, username}) => h("a", {href: `/keys?user=${id}`, "aria-label": `Keys of ${username}`}, "Keys")},
    ]});
    await list.pages((after) => ctx.get("/api/users", {limit: 100, after}), () => empty("No users yet", "Whoever sits at this machine is an admin until the first one is made.", make()));
    return list.element;
  }, 8);
};

export default {title: "Users", show};
