// A list in an order that people change: drag the grip, Alt+Up/Down anywhere in an entry, or its buttons.
//   reorder(items, {label: (item) => name, draw: (item, index) => nodes, onMove: async (items) => …}) -> <ol>; fixed: (item) => true for entries that stay

import { button, h, replace } from "../core/dom.js";

export const reorder = (items, {label, draw, onMove, fixed = () => false}) => {
  const order = [...items];
  let dragged = null;
  const said = h("li.unseen", {"aria-live": "polite"});
  const list = h("ol.reorder.stack");

  const move = (item, to, by) => {
    const from = order.indexOf(item);
    if (from === to || to < 0 || to >= order.length || fixed(order[to]) || fixed(item)) return;
    order.splice(to, 0, ...order.splice(from, 1));
    paint();
    said.textContent = `${label(item)} is number ${to + 1} of ${order.length}`;
    list.children[to].querySelector(by ? `[data-by="${by}"]` : "button")?.focus();
    onMove([...order]);
  };
  const step = (item, by) => move(item, order.indexOf(item) + by, by);
  const arrow = (item, by, word) => button(by < 0 ? "↑" : "↓", () => step(item, by), "icon small quiet", {"aria-label": `Move ${label(item)} ${word}`, title: `Alt+${word}`, data: {by}});
  const isBelow = (event) => {
    const {top, height} = event.currentTarget.getBoundingClientRect();
    return event.clientY > top + height / 2;
  };
  const hears = (item) => ({
    keydown: (event) => {
      const by = event.altKey && {ArrowUp: -1, ArrowDown: 1}[event.key];
      if (!by) return;
      event.preventDefault();
      step(item, by);
    },
    dragstart: (event) => {
      if (event.target !== event.currentTarget) return;
      dragged = item;
      event.currentTarget.classList.add("dragged");
    },
    dragover: (event) => {
      if (dragged === null || dragged === item || fixed(item)) return;
      event.preventDefault();
      event.currentTarget.classList.add("over");
      event.currentTarget.classList.toggle("after", isBelow(event));
    },
    dragleave: (event) => event.currentTarget.classList.remove("over"),
    drop: (event) => {
      event.preventDefault();
      const to = order.indexOf(item) + isBelow(event);
      move(dragged, to > order.indexOf(dragged) ? to - 1 : to);
    },
    dragend: paint,
  });
  // Only the grip starts a drag: text in an entry can still be selected.
  const grip = (item) => !fixed(item) && h("span.grip", {"aria-hidden": "true", title: "Drag to move", on: {pointerdown: (event) => { event.currentTarget.parentElement.draggable = true; }}}, "⠿");
  function paint() {
    dragged = null;
    replace(list, order.map((item, index) => h("li", {on: hears(item)}, grip(item), h(".grow", draw(item, index)), !fixed(item) && h("span.row.tight", arrow(item, -1, "up"), arrow(item, 1, "down")))), said);
  }
  paint();
  return list;
};
