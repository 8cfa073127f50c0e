// A table with row links, "more" and live rows.
//   const list = table({label, columns: [{title, cell: (row) => node | text, num, wide}], href: (row) => path})
//   box.append(list.element); list.set(rows, emptyNode); list.add(rows); list.prepend(row); list.more(async () => …) or list.more(null)
//   await list.pages((after) => ctx.get(path, {after}), () => emptyNode)    from the first page on; the newest call wins
// `num`: right-aligned; `wide`: left out on phones. Up/Down move between row links.

import { button, h, replace } from "../core/dom.js";
import { failed } from "./states.js";

const kind = (column) => [column.num && "num", column.wide && "only-wide"].filter(Boolean).join(" ") || null;

export const table = ({label, columns, href}) => {
  const body = h("tbody");
  const foot = h(".more", {hidden: true});
  let asked = null;

  const heading = (column) => h("th", {scope: "col", class: kind(column)}, column.title);
  const drawn = (row) => {
    const path = href?.(row);
    const cells = columns.map((column, index) => {
      const inside = column.cell(row);
      return h("td", {class: kind(column)}, path && !index ? h("a", {href: path, class: "strong"}, inside) : inside);
    });
    return h("tr", {data: {href: path}}, cells);
  };
  const follow = (event) => {
    if (event.target.closest("a, button, input, select, label, summary") || String(getSelection())) return;
    event.target.closest("tr[data-href]")?.querySelector("a").click();
  };
  const move = (event) => {
    const step = {ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling"}[event.key];
    const next = step && event.target.matches("a.strong") && event.target.closest("tr")[step]?.querySelector("a.strong");
    if (!next) return;
    event.preventDefault();
    next.focus();
  };
  const box = h(".scroll", {tabindex: "0", role: "region", "aria-label": label},
    h("table", {"aria-label": label}, h("thead", h("tr", columns.map(heading))), body));
  body.addEventListener("click", follow);
  body.addEventListener("keydown", move);

  const more = (work) => {
    foot.hidden = !work;
    const onClick = async (event) => {
      event.target.disabled = true;
      try {
        await work();
      } catch (error) {
        if (error.name !== "AbortError") replace(foot, failed(error, () => more(work)));
      }
    };
    if (work) replace(foot, button("Show more", onClick, "small"));
  };
  const add = (rows) => body.append(...rows.map(drawn));
  const set = (rows, none) => replace(body, rows.length ? rows.map(drawn) : none && h("tr", h("td", {colspan: columns.length}, none)));
  const pages = async (read, none, after) => {
    const mine = asked = after ?? {};
    const {data, next} = await read(after);
    if (mine !== asked) return;
    if (after) add(data);
    else set(data, none());
    more(next && (() => pages(read, none, next)));
  };
  return {element: h(".card.flush", box, foot), more, add, set, pages, prepend: (row) => body.prepend(drawn(row))};
};
