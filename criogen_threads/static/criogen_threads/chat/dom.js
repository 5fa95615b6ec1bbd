// Small helpers that make nodes. What people, models and tools wrote becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element.
 *
 * @param {string} tag
 * @param {object} values Attributes; ``on…`` are listeners, true is an attribute without a value, false none.
 * @param {...(Node | string | null | false)} children Strings become text.
 */
export function h(tag, values = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(values)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((each) => each !== null && each !== false));
  return made;
}

const ICONS = {
  send: "M12 19V5M5.5 11.5 12 5l6.5 6.5",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h10v10H9zM5 15V5h10",
  check: "m5 12.5 4.5 4.5L19 7.5",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  again: "M19 12a7 7 0 1 1-2.1-5M19 4v4h-4",
  back: "m14.5 6-6 6 6 6",
  on: "m9.5 6 6 6-6 6",
  down: "M12 5v14m-6.5-6.5L12 19l6.5-6.5",
  chat: "M4 5h16v11H10l-4 4v-4H4z",
  close: "m6 6 12 12M18 6 6 18",
  tool: "M13 3 5 13.5h6L10 21l8-10.5h-6z",
};

export function icon(name) {
  const made = document.createElementNS(SVG, "svg");
  made.setAttribute("viewBox", "0 0 24 24");
  made.setAttribute("aria-hidden", "true");
  made.setAttribute("class", `icon icon-${name}`);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  made.append(path);
  return made;
}

/** A button that is an icon; its label is read out and shown as a tip. */
export function iconButton(name, label, onclick, values = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...values }, icon(name));
}

/** Nodes of HTML that the server has rendered and sanitised. */
export function sanitised(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  for (const link of template.content.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const wide of template.content.querySelectorAll("pre, table")) wide.tabIndex = 0; // they scroll: by keyboard, too
  return template.content;
}

// What cannot be seen, or turns the direction of what is: a person who approves has to see it.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\u{e0000}-\u{e007f}]/u;

/** Text in which nothing is unseen. */
export function visibly(text) {
  const nodes = [];
  let plain = "";
  for (const character of text) {
    if (!UNSEEN.test(character)) {
      plain += character;
      continue;
    }
    const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    nodes.push(plain, h("span", { class: "unseen" }, `U+${code}`));
    plain = "";
  }
  return [...nodes, plain];
}

/** A text of the catalogue, with its values filled in. */
export function filled(text, values) {
  return text.replace(/%\((\w+)\)s/g, (whole, name) => values[name] ?? whole);
}
