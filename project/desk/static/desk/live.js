// Keeps what is marked with data-live as the server has it now. A row that has changed is marked for a moment.

const PAUSE = 2_000;
const parts = [...document.querySelectorAll("[data-live]")];
const shown = new Map(parts.map((part) => [part, part.innerHTML]));

async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts) renew(part, page.getElementById(part.id));
}

function renew(part, fresh) {
  if (!fresh || fresh.innerHTML === shown.get(part) || part.contains(document.activeElement)) return;
  const before = rows(part);
  shown.set(part, fresh.innerHTML);
  part.replaceChildren(...fresh.childNodes);
  for (const [key, row] of Object.entries(rows(part))) {
    if (before[key] && before[key].textContent !== row.textContent) row.classList.add("changed");
  }
}

const rows = (node) => Object.fromEntries([...node.querySelectorAll("[data-key]")].map((row) => [row.dataset.key, row]));

setInterval(() => {
  if (!document.hidden) refresh().catch(() => {}); // the next one tries again
}, PAUSE);
