// Numbers and times as people read them; what is not known is a dash.
//   count(1234567) "1,234,567"   short(1234567) "1.23M"   usd(nano) "$0.0123"   ms(1234) "1.23 s"   bytes(2048) "2.05 kB"
//   percent(0.0123) "1.2%"   day(ms) "16 Nov 2026"   when(ms) "16 Nov, 14:03:22"   ago(ms) "3 min ago"   time(ms) -> <time> with both
//   cut(text) as much of it as a page can draw

import { h } from "./dom.js";

const known = (write) => (value, ...more) => (Number.isFinite(value) ? write(value, ...more) : "–");
const number = (options) => new Intl.NumberFormat("en-US", options);
const counts = number();
const shorts = number({notation: "compact", maximumSignificantDigits: 3});
const date = (options) => new Intl.DateTimeFormat("en-GB", options);
const days = date({day: "numeric", month: "short"});
const years = date({day: "numeric", month: "short", year: "numeric"});
const clocks = date({hour: "2-digit", minute: "2-digit", second: "2-digit"});

export const count = known((value) => counts.format(value));

const LONGEST = 100000;

export const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…\n\n(The rest is too long to be shown.)` : text);

export const short = known((value) => (Math.abs(value) < 10000 ? counts.format(Math.round(value * 100) / 100) : shorts.format(value)));

export const usd = known((nano) => {
  const dollars = Math.abs(nano) / 1e9;
  const digits = dollars === 0 || dollars >= 1 ? 2 : Math.min(9, 2 + Math.ceil(-Math.log10(dollars)));
  return `${nano < 0 ? "−" : ""}$${number({minimumFractionDigits: 2, maximumFractionDigits: digits}).format(dollars)}`;
});

export const ms = known((value) => {
  if (value < 1000) return `${value < 10 ? Math.round(value * 10) / 10 : Math.round(value)} ms`;
  const seconds = Math.round(value / 1000);
  if (seconds < 60) return `${(value / 1000).toPrecision(3)} s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
});

export const bytes = known((value) => {
  const power = value < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(value) / 3));
  return `${Number((value / 1000 ** power).toPrecision(3))} ${["B", "kB", "MB", "GB", "TB"][power]}`;
});

export const percent = known((share) => `${number({maximumFractionDigits: share < 0.1 ? 1 : 0}).format(share * 100)}%`);

export const day = known((at) => years.format(at));

export const when = known((at) => `${days.format(at) === days.format(Date.now()) ? "" : `${days.format(at)}, `}${clocks.format(at)}`);

export const ago = known((at, now = Date.now()) => {
  const seconds = Math.round((now - at) / 1000);
  const size = Math.abs(seconds);
  if (size < 5) return "now";
  const [unit, length] = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].find(([, each]) => size >= each);
  const text = `${Math.round(size / length)} ${unit}`;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
});

export const time = known((at, show = when) => h("time", {datetime: new Date(at).toISOString(), title: `${years.format(at)}, ${clocks.format(at)} (${ago(at)})`}, show(at)));
