// Keeps what is marked with data-live as the server has it now. A row that has changed is marked for a moment.

const PAUSE = 2_000;
const part = document.querySelector("[data-live]");

async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.querySelector("[data-live]");
  if (!fresh || fresh.innerHTML === part.dataset.shown) return;
  const before = rows(part);
  part.dataset.shown = fresh.innerHTML;
  part.replaceChildren(...fresh.childNodes);
  for (const [key, row] of Object.entries(rows(part))) {
    if (before[key] && before[key].textContent !== row.textContent) row.classList.add("changed");
  }
}

const rows = (node) => Object.fromEntries([...node.querySelectorAll("[data-key]")].map((row) => [row.dataset.key, row]));

part.dataset.shown = part.innerHTML;
setInterval(() => {
  if (!document.hidden && !part.contains(document.activeElement)) refresh().catch(() => {}); // the next one tries again
}, PAUSE);
