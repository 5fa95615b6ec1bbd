// Follows a thread or an approval: asks for what changed, and replaces the nodes that did. A form is never replaced;
// it is shown or hidden, as what can be done changes.
"use strict";

(() => {
  const MOST = 60000;
  let tag = null, pause = 0, timer = 0;

  const place = () => document.getElementById("criogen-live");
  const keyed = (part, key) => part.querySelector(`[data-key="${CSS.escape(key)}"]`);
  const alike = (one, other) => one.outerHTML.replace(/ open=""/g, "") === other.outerHTML.replace(/ open=""/g, "");

  function put(now, next) {
    const opened = [...now.querySelectorAll("details")].map((each) => each.open);
    next.querySelectorAll("details").forEach((each, index) => { each.open = Boolean(opened[index]); });
    now.replaceWith(next);
  }

  function mergeList(now, next) {
    const kept = new Set([...next.children].map((each) => each.dataset.key));
    for (const old of [...now.children]) if (!kept.has(old.dataset.key)) old.remove();
    for (const fresh of [...next.children]) {
      const old = keyed(now, fresh.dataset.key);
      if (!old) now.append(fresh.cloneNode(true));
      else if (!alike(old, fresh)) put(old, fresh.cloneNode(true));
    }
  }

  function merge(fragment) {
    for (const fresh of fragment.querySelectorAll("[data-key]")) {
      if (fresh.closest("[data-list]")) continue;
      const old = keyed(document, fresh.dataset.key);
      if (old && !alike(old, fresh)) put(old, fresh.cloneNode(true));
    }
    for (const fresh of fragment.querySelectorAll("[data-list]")) {
      const old = document.querySelector(`[data-list="${CSS.escape(fresh.dataset.list)}"]`);
      if (old) mergeList(old, fresh);
    }
  }

  function offer(facts) {
    const offered = (facts.actions || "").split(" ");
    for (const form of document.querySelectorAll("[data-action]")) form.hidden = !offered.includes(form.dataset.action);
    for (const field of document.querySelectorAll("[data-run-field]")) field.value = facts.run || "";
  }

  async function look() {
    const here = place();
    const headers = tag ? { "If-None-Match": tag } : {};
    try {
      const answer = await fetch(here.dataset.url, { headers, credentials: "same-origin", cache: "no-store" });
      if (answer.status === 304) return wait(Number(here.dataset.every));
      if (!answer.ok || answer.redirected) return wait(Math.min(MOST, pause * 2));
      const fragment = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = fragment.getElementById("criogen-live");
      if (!next) return wait(MOST);
      tag = answer.headers.get("ETag");
      merge(fragment);
      Object.assign(here.dataset, next.dataset);
      offer(next.dataset);
      document.dispatchEvent(new CustomEvent("criogen:refreshed"));
      wait(Number(here.dataset.every));
    } catch (error) {
      wait(Math.min(MOST, pause * 2));
    }
  }

  function wait(next) {
    pause = next;
    clearTimeout(timer);
    timer = setTimeout(() => (document.hidden ? wait(pause) : look()), pause);
  }

  document.addEventListener("DOMContentLoaded", () => {
    const here = place();
    if (here && here.dataset.every) wait(Number(here.dataset.every));
  });
})();
