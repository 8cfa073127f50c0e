// Media: what the caller has stored; upload, look, copy the reference, delete.
import { button, h } from "../core/dom.js";
import { api } from "../core/api.js";
import { bytes, count, time } from "../core/format.js";
import { sure } from "../parts/dialog.js";
import { complain, copyButton, empty, load } from "../parts/states.js";

const SHOWN = {image: "img", audio: "audio", video: "video"};

const preview = ({id, mime, name}) => {
  const tag = SHOWN[mime.split("/")[0]];
  return tag ? h(tag, {src: `/v1/media/${id}`, controls: true, preload: "metadata", loading: "lazy", alt: name ?? id, "aria-label": name ?? id}) : h("span.dim", mime);
};

const inWords = ({usage, limits}) => h("p.dim", `${count(usage.files)} ${usage.files === 1 ? "file takes" : "files take"} ${bytes(usage.bytes)} of ${bytes(usage.quota_bytes)}. `
  + `One may have ${bytes(limits.max_bytes)} and is kept ${limits.keep_days ? `for ${count(limits.keep_days)} days` : "until somebody deletes it"}.`);

const card = (file, again) => {
  const {id, uri, mime, size, name, created_at: stored, expires_at: until} = file;
  const remove = () => sure({title: "Delete this file?", text: `${name ?? id} is gone at once, and what refers to it will fail.`, action: "Delete"}, async () => again(await api.del(`/v1/media/${id}`)));
  return h("li.card", h(".preview", preview(file)),
    h("a", {href: `/v1/media/${id}`, target: "_blank", class: "clip"}, name ?? id),
    h("p.dim.small", `${mime}, ${bytes(size)}, `, time(stored), until && [", until ", time(until)]),
    h(".bar", copyButton(() => uri, "Copy reference"), h("a", {href: `/chat?media=${id}`, class: "button small quiet"}, "Use in chat"), button("Delete", remove, "small danger")));
};

const show = async (page, ctx) => {
  const box = h(".stack");
  const upload = async (chosen) => {
    for (const file of chosen) {
      const headers = {"content-type": file.type || "application/octet-stream"};
      await api.raw(`/v1/media?name=${encodeURIComponent(file.name)}`, {method: "POST", body: file, headers}).catch(complain);
    }
    files.value = ""; // or the same file could not be chosen again
    await again();
  };
  const files = h("input", {type: "file", multiple: true, hidden: true, on: {change: () => upload([...files.files])}});
  const choose = () => button("Upload", () => files.click(), "primary");
  const draw = async (after) => {
    const page = await ctx.get("/v1/media", {limit: 60, after});
    const more = button("Show more", async () => more.replaceWith(...await draw(page.next)));
    return [!after && inWords(page), page.data.length ? h("ul.grid", {style: {"--min": "260px"}}, page.data.map((file) => card(file, again)))
      : !after && empty("Nothing is stored yet", "Upload a file or drop it here. Its reference may stand wherever media may.", choose()), page.next && more].filter(Boolean);
  };
  const again = () => load(box, () => draw());
  page.addEventListener("dragover", (event) => event.preventDefault());
  page.addEventListener("drop", (event) => {
    event.preventDefault();
    upload([...event.dataTransfer.files]);
  });
  page.append(h(".head", h("h1", "Media"), files, choose()), box);
  await again();
};

export default {title: "Media", show};
