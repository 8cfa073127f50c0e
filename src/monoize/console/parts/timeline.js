// A run as a timeline of states: the rows come from the digest alone, hashes, times and payloads from the transcript behind it.
//   const line = timeline(id, signal); box.append(line.element); line.grow(view(digest).trail); await line.load(); line.mark(report of verify)

import { badge, button, dim, facts as factList, h, replace } from "../core/dom.js";
import { api } from "../core/api.js";
import { bytes, ms } from "../core/format.js";
import { light } from "./lights.js";
import { code, pretty } from "./run_view.js";
import { failed, load as fill } from "./states.js";

const PAGE = 100; // rows at a time: a long run must not freeze the page
const NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; // the hash of nothing
const FACTS = ["head", "prev", "contract_hash", "adapter_version", "model_profile_id", "model_fingerprint"];

/** Filled when it is first opened. */
const later = (summary, work) => {
  const box = h(".stack.tight");
  const open = ({target}) => target === details && target.open && !box.childElementCount && fill(box, work, 2);
  const details = h("details", {on: {toggle: open}}, summary, box);
  return details;
};

const payload = (path, name, hash) => later(h("summary", name, " ", h("code.dim", hash)), async () => {
  const {text, cut, bytes: size} = await api.get(`${path}/payloads/${hash}`);
  return [code(pretty(text)), cut && dim(`The beginning of ${bytes(size)}; the zip file has all of it.`)];
});

const drawSeal = ({line, size, public_key: key}) => h("li.seal.bar", {data: {line}}, badge("signed checkpoint", "info"), dim(`${size} entries, key `, h("code", {title: key}, key.slice(0, 12))), h("span.mark"));

export const timeline = (id, signal) => {
  const path = `/v1/agent/runs/${id}`;
  const [list, foot, rows] = [h("ol.timeline"), h("div"), []];
  let [trail, most, known, report] = [[], PAGE, 0, null];
  const read = async (from, limit) => (await api.get(`${path}/entries`, {from, limit}, {signal})).data;

  const row = ({seq, step, from, to}) => {
    const facts = dim(step);
    const item = h("li", later(h("summary.bar", dim(seq), h("b", `${from} → ${to}`), facts, h("span.mark")), async () => {
      const [entry] = await read(seq, 1);
      return [factList(FACTS.map((name) => [name, entry[name] && h("code", entry[name])])),
        ["action", "result", "meta"].map((name) => [name, entry[`${name}_hash`]]).filter(([, hash]) => hash !== NOTHING).map(([name, hash]) => payload(path, name, hash))];
    }));
    const tell = (entry) => {
      replace(facts, `${step}, ${ms(entry.observed?.elapsed_ms)} `, h("code", entry.head.slice(0, 12)));
      item.dataset.line = entry.line;
    };
    list.append(item);
    rows.push({item, tell});
  };
  const drawMarks = () => {
    for (const item of report ? list.children : []) {
      const fault = report.faults.find(({line}) => line === Number(item.dataset.line));
      replace(item.querySelector(".mark"), light(fault?.fault ?? "whole", fault ? "bad" : "ok"));
    }
  };
  const grow = (grown = trail) => {
    trail = grown;
    trail.slice(rows.length, most).forEach(row);
    replace(foot, trail.length > most && button(`More of ${trail.length} entries`, more));
  };
  const load = async () => {
    try {
      for (; known < rows.length; known += PAGE) {
        for (const line of await read(known, PAGE)) {
          if (line.checkpoint) rows[line.size - 1]?.item.after(drawSeal(line));
          else rows[line.seq]?.tell(line);
        }
      }
      drawMarks();
    } catch (error) {
      if (!signal.aborted) replace(foot, failed(error, load));
    }
  };
  const more = () => {
    most += PAGE;
    grow();
    return load();
  };
  const mark = (found) => {
    report = found;
    drawMarks();
  };
  return {element: h(".stack", list, foot), grow, load, mark};
};
