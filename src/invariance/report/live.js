// Asks for what is there now, every two seconds, and puts what has changed in its place.
const PAUSE = 2000;
const places = ["summary", "runs", "shown"].map((id) => document.getElementById(id));
const trouble = document.getElementById("trouble");
const before = {};
let waiting = 0;

const chosen = () => new Set(
  location.hash.slice(1).split("&").filter(Boolean).map(decodeURIComponent));

function put(place, markup) {
  if (before[place.id] === markup) return;
  before[place.id] = markup;
  const focused = document.activeElement.dataset.run;
  const log = place.querySelector("#log");
  const low = !log || log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  const top = log ? log.scrollTop : 0;
  place.innerHTML = markup;
  const now = place.querySelector("#log");
  if (now) now.scrollTop = low ? now.scrollHeight : top;
  if (focused === undefined) return;
  const again = [...place.querySelectorAll("input")].find((box) => box.dataset.run === focused);
  if (again) again.focus();
}

async function look() {
  clearTimeout(waiting);
  try {
    const names = [...chosen()].map((name) => `run=${encodeURIComponent(name)}`);
    const answer = await fetch(`now?${names.join("&")}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(await answer.text());
    const now = await answer.json();
    for (const place of places) put(place, now[place.id]);
    document.title = now.title;
    trouble.hidden = true;
  } catch {
    trouble.textContent = "No answer: is 'invariance watch' still running? Asking again.";
    trouble.hidden = false;
  }
  clearTimeout(waiting);
  waiting = setTimeout(look, PAUSE);
}

document.getElementById("runs").addEventListener("change", () => {
  const boxes = [...document.querySelectorAll("#runs input:checked")];
  location.hash = boxes.map((box) => encodeURIComponent(box.dataset.run)).join("&");
});
addEventListener("hashchange", look);
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
look();
