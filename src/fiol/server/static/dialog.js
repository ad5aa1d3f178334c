// The dialog that confirms changes and asks for tokens.

import { setText } from "./dom.js";

const part = (name) => document.getElementById(name ? `dialog-${name}` : "dialog");

/**
 * Ask for confirmation, and run `act(token)` until it succeeds or the dialog is closed.
 *
 * `act` returns `{ ok, needsToken, reason }`. Returns whether it has succeeded.
 */
export function confirmChange({ title, text, confirm, danger = false, token = false, act }) {
  const dialog = part("");
  const field = part("token");
  const input = field.querySelector("input");
  const button = part("confirm");
  const form = dialog.querySelector("form");
  setText(part("title"), title);
  setText(part("text"), text);
  setText(part("error"), "");
  setText(button, confirm);
  button.className = danger ? "danger" : "primary";
  button.disabled = false;
  input.value = "";
  field.hidden = !token;
  input.required = token;
  return new Promise((resolve) => {
    const finish = (done) => {
      form.removeEventListener("submit", submit);
      part("cancel").removeEventListener("click", cancel);
      dialog.removeEventListener("cancel", cancel);
      input.value = "";
      dialog.close();
      resolve(done);
    };
    const cancel = () => finish(false);
    const submit = async (event) => {
      event.preventDefault();
      if (button.disabled) return;
      button.disabled = true;
      const found = await act(field.hidden ? null : input.value.trim());
      button.disabled = false;
      if (found.ok) {
        finish(true);
        return;
      }
      setText(part("error"), field.hidden && found.needsToken ? "This needs a token that may write." : found.reason);
      if (found.needsToken) {
        field.hidden = false;
        input.required = true;
        input.focus();
      }
    };
    form.addEventListener("submit", submit);
    part("cancel").addEventListener("click", cancel);
    dialog.addEventListener("cancel", cancel);
    dialog.showModal();
    (token ? input : part("cancel")).focus();
  });
}

/** Ask for a token until `accept(token)` returns no reason against it, or the dialog is closed. */
export function askForToken(accept) {
  return confirmChange({
    title: "This server needs a token",
    text: "A token that may read shows the figures; one that may write can also change models. It is kept in this tab alone.",
    confirm: "Continue",
    token: true,
    act: async (given) => {
      try {
        const reason = await accept(given);
        return { ok: reason === "", needsToken: true, reason };
      } catch {
        return { ok: false, needsToken: true, reason: "the server cannot be reached" };
      }
    },
  });
}
