// Dialogs; Escape closes them and the focus goes back.
//   await confirm({title, text, action: "Delete", danger: true}) -> true | false
//   await sure({title, text, action}, async () => …)      a dangerous thing: done after a yes; a refusal is a toast
//   await form({title, body: nodes, action: "Save", submit: async (data: FormData) => result, width: "640px"}) -> result | null; a refusal is shown in the dialog
//   sheet({title, body, width}) -> <dialog>, open, with a Close button

import { button, h, replace } from "../core/dom.js";
import { complain, failed } from "./states.js";

const open = (title, width, ...inside) => {
  const dialog = h("dialog", {"aria-label": title, style: width ? {"--width": width} : {}}, inside);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  return dialog;
};

export const form = ({title, body, action, danger = false, submit, width}) => new Promise((resolve) => {
  let result = null;
  const problem = h("div");
  const send = h("button", {type: "submit", class: danger ? "danger" : "primary"}, action);
  const onSubmit = async (event) => {
    event.preventDefault();
    send.disabled = true;
    replace(problem);
    try {
      result = await submit(new FormData(event.target)) ?? true;
      dialog.close();
    } catch (error) {
      replace(problem, failed(error));
    }
    send.disabled = false;
  };
  const dialog = open(title, width, h("form", {on: {submit: onSubmit}}, h("h2", title), body, problem,
    h(".actions", button("Cancel", () => dialog.close()), send)));
  dialog.addEventListener("close", () => resolve(result));
});

export const confirm = async ({title, text, action, danger = false}) => await form({
  title, action, danger, body: h("p", text), submit: async () => true,
}) === true;

export const sure = async (question, work) => await confirm({danger: true, ...question}) && work().catch(complain);

export const sheet = ({title, body, width}) => {
  const dialog = open(title, width, h(".body", h(".row", h("h2.grow", title),
    button("Close", () => dialog.close(), "small")), body));
  return dialog;
};
