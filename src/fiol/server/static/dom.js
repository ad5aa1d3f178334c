// Elements, made without markup: every text goes through `textContent`.

/** Return a new element. `attributes` may have `class`, `text`, listeners (`onclick`) and any attribute. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Set the text of an element if it differs: readers of screens keep their place. */
export function setText(element, text) {
  const value = String(text);
  if (element.textContent !== value) element.textContent = value;
}

/** Set an attribute if it differs. */
export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Make `parent` have `count` children, new ones by `create(k)`. */
export function resize(parent, count, create) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(create(parent.children.length));
}

/** A table that is changed cell by cell. A cell is a text, `{ text, class, title }`, or an element. */
export class Table {
  constructor(caption, { hiddenCaption = true } = {}) {
    this.caption = make("caption", { class: hiddenCaption ? "visually-hidden" : "", text: caption });
    this.head = make("tr");
    this.body = make("tbody");
    this.element = make("table", {}, this.caption, make("thead", {}, this.head), this.body);
  }

  /** Show rows under headings. The first cell of a row is its heading. */
  show(headings, rows) {
    resize(this.head, headings.length, () => make("th", { scope: "col" }));
    headings.forEach((heading, k) => setText(this.head.children[k], heading));
    resize(this.body, rows.length, () => make("tr"));
    rows.forEach((row, k) => this.#showRow(this.body.children[k], row));
  }

  #showRow(element, row) {
    resize(element, row.length, (k) => (k === 0 ? make("th", { scope: "row" }) : make("td")));
    row.forEach((cell, k) => {
      const place = element.children[k];
      if (cell instanceof Node) {
        if (place.firstChild !== cell) place.replaceChildren(cell);
        return;
      }
      const { text, class: name = "", title = "" } = typeof cell === "object" && cell !== null ? cell : { text: cell };
      setText(place, text);
      if (place.className !== name) place.className = name;
      if (place.title !== title) place.title = title;
    });
  }
}
