// A chart over time in SVG: values under the pointer or by arrow keys, a table for screen readers.
//   chart({label, x: [ms, …], series: [{name, values: [number | null, …]}], kind: "line" | "bars" (stacked), format: short, height: 120, at: when})
// Returns a <figure>; series take the colours .series-0 … .series-4 unless one says `tone: 1`.

import { h, replace, svg } from "../core/dom.js";
import { short, when } from "../core/format.js";

const LEFT = 44;
const BOTTOM = 18;
const TOP = 8;

const niceTop = (value) => {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].find((step) => step * power >= value) * power;
};

export const chart = ({label, x, series, kind = "bars", format = short, height = 120, at = when}) => {
  const isBars = kind === "bars";
  const tone = (one, index) => `series-${one.tone ?? index % 5}`;
  const totals = x.map((_, i) => series.reduce((sum, one) => sum + (one.values[i] ?? 0), 0));
  const top = niceTop(Math.max(...(isBars ? totals : series.flatMap((one) => one.values.map((value) => value ?? 0))), 0));
  const legend = h("figcaption.legend");
  const cursor = svg("line.cursor", {y1: TOP, y2: height - BOTTOM, visibility: "hidden"});
  const plot = svg("svg", {role: "img", tabindex: "0", "aria-label": `${label}; arrow keys read the values`, height});
  let width = 0;
  let chosen = -1;

  const px = (i) => LEFT + (isBars ? (i + 0.5) / x.length : x.length > 1 ? i / (x.length - 1) : 0.5) * (width - LEFT - 4);
  const py = (value) => TOP + (1 - value / top) * (height - TOP - BOTTOM);

  const runs = (values) => {
    const found = [];
    values.forEach((value, i) => {
      if (value === null || value === undefined) return;
      if (i && found.length && found.at(-1).at(-1) === i - 1) found.at(-1).push(i);
      else found.push([i]);
    });
    return found;
  };
  const drawLine = (one, index) => {
    const point = (i) => `${px(i).toFixed(1)} ${py(one.values[i]).toFixed(1)}`;
    return svg("g", {class: tone(one, index)}, runs(one.values).map((run) => {
      if (run.length === 1) return svg("circle.bar", {cx: px(run[0]), cy: py(one.values[run[0]]), r: 2});
      return svg("path.line", {d: `M${run.map(point).join("L")}`});
    }));
  };
  const drawBars = () => {
    const wide = Math.max(1, Math.min(28, (width - LEFT) / x.length * 0.72));
    const low = x.map(() => 0);
    return series.map((one, index) => svg("g", {class: tone(one, index)}, one.values.map((value, i) => {
      if (!value) return null;
      const [from, to] = [low[i], low[i] += value];
      return svg("rect.bar", {x: (px(i) - wide / 2).toFixed(1), width: wide.toFixed(1), y: py(to).toFixed(1), height: Math.max(1, py(from) - py(to)).toFixed(1)});
    })));
  };
  const xLabels = () => {
    const every = Math.max(1, Math.ceil(x.length / Math.max(2, Math.floor((width - LEFT) / (at(x[0]).length * 6 + 24)))));
    return x.map((moment, i) => i % every === 0 && px(i) < width - 40
      && svg("text", {x: px(i), y: height - 3, "text-anchor": isBars ? "middle" : "start"}, at(moment)));
  };
  const draw = () => {
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    replace(plot, [0, 0.5, 1].map((share) => [
      svg("line.rule", {x1: LEFT, x2: width, y1: py(top * share), y2: py(top * share)}),
      svg("text", {x: LEFT - 6, y: py(top * share) + 4, "text-anchor": "end"}, format(top * share)),
    ]), xLabels(), isBars ? drawBars() : series.map(drawLine), cursor);
  };
  const choose = (index) => {
    chosen = index;
    cursor.setAttribute("visibility", index < 0 ? "hidden" : "visible");
    if (index >= 0) for (const end of ["x1", "x2"]) cursor.setAttribute(end, px(index));
    replace(legend, index >= 0 && h("b", at(x[index])), series.map((one, i) => h("span", {class: tone(one, i)},
      h("span.dim", one.name, index >= 0 && ` ${format(one.values[index])}`))));
  };
  const onKey = (event) => {
    const to = {ArrowLeft: chosen - 1, ArrowRight: chosen + 1, Home: 0, End: x.length - 1, Escape: -1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    legend.setAttribute("aria-live", "polite");
    choose(Math.max(event.key === "Escape" ? -1 : 0, Math.min(x.length - 1, to)));
  };
  const onMove = (event) => {
    const share = (event.clientX - plot.getBoundingClientRect().left - LEFT) / (width - LEFT - 4);
    choose(Math.max(0, Math.min(x.length - 1, isBars ? Math.floor(share * x.length) : Math.round(share * (x.length - 1)))));
  };
  plot.addEventListener("pointermove", onMove);
  plot.addEventListener("pointerleave", () => choose(-1));
  plot.addEventListener("blur", () => choose(-1));
  plot.addEventListener("keydown", onKey);
  choose(-1);
  new ResizeObserver(([entry]) => {
    width = Math.max(160, entry.contentRect.width);
    draw();
  }).observe(plot);
  return h("figure.chart", {style: {"--height": `${height}px`}}, plot, legend,
    h(".unseen", h("table", h("caption", label), h("tr", h("th", "Time"), series.map((one) => h("th", one.name))),
      x.map((moment, i) => h("tr", h("th", at(moment)), series.map((one) => h("td", format(one.values[i]))))))));
};
