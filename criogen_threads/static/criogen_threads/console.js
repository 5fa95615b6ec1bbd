// Follows a thread: asks for what changed, and replaces the nodes that did. Forms are never touched.
"use strict";

(() => {
  const FAST = 1500, SLOW = 10000, MOST = 60000;
  let tag = null, pause = FAST, timer = 0;

  const place = () => document.getElementById("criogen-live");

  const alike = (one, other) => one.outerHTML.replace(/ open=""/g, "") === other.outerHTML.replace(/ open=""/g, "");

  function put(now, next) {
    const opened = [...now.querySelectorAll("details")].map((each) => each.open);
    next.querySelectorAll("details").forEach((each, index) => { each.open = Boolean(opened[index]); });
    now.replaceWith(next);
  }

  function merge(now, next) {
    for (const fresh of next.querySelectorAll(":scope > [data-key]")) {
      const old = now.querySelector(`:scope > [data-key="${CSS.escape(fresh.dataset.key)}"]`);
      if (!old) now.append(fresh.cloneNode(true));
      else if (!alike(old, fresh)) put(old, fresh.cloneNode(true));
    }
    if (!now.matches("[data-list]")) return;
    const kept = new Set([...next.children].map((each) => each.dataset.key));
    for (const old of [...now.children]) if (!kept.has(old.dataset.key)) old.remove();
  }

  async function look() {
    const here = place();
    const headers = tag ? { "If-None-Match": tag } : {};
    try {
      const answer = await fetch(here.dataset.url, { headers, credentials: "same-origin", cache: "no-store" });
      if (answer.status === 304) return wait(here.dataset.live === "1" ? FAST : SLOW);
      if (!answer.ok || answer.redirected) return wait(Math.min(MOST, pause * 2));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("criogen-live");
      if (!next) return wait(MOST);
      tag = answer.headers.get("ETag");
      merge(here, next);
      const lists = [here.querySelector("[data-list]"), next.querySelector("[data-list]")];
      if (lists[0] && lists[1]) merge(lists[0], lists[1]);
      here.dataset.live = next.dataset.live;
      document.dispatchEvent(new CustomEvent("criogen:refreshed"));
      wait(here.dataset.live === "1" ? FAST : SLOW);
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
    if (here && !here.dataset.still) wait(here.dataset.live === "1" ? FAST : SLOW);
  });
})();
