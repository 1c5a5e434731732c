// The page reads without this file. It adds the map (pictures under the pointer,
// neighbors of what is chosen, keys, zoom), and of several runs a table that sorts,
// boxes that hide runs, and the choice of whose map is shown.
// Whatever comes from files goes into the page as text, never as markup.

document.querySelectorAll("table.sortable").forEach(sortable);
hiding([...document.querySelectorAll("[data-shows]")]);
const which = document.getElementById("which");
if (which) maps(which);
else if (document.getElementById("gallery")) openMap();

// An element with text or elements inside it.
function make(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

function draw(name, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// ------------------------------------------------------------------ several runs
// Headings become buttons; rows go by data-value, or by what they say. Cells without a
// value stay at the end, and rows that are equal keep their order.
function sortable(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const spoken = document.getElementById("sorted");
  const value = (row, column) => row.cells[column].dataset.value ?? null;
  const isNumber = (text) => text === null || !Number.isNaN(Number(text));
  heads.forEach((head, column) => {
    const button = make("button", { type: "button" }, ...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const rows = [...body.rows];
      const words = !rows.every((row) => isNumber(value(row, column)));
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : !words; // the best, or a, first
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        return words ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
      };
      const full = rows.filter((row) => value(row, column) !== null);
      full.sort((a, b) => down ? order(b, a) : order(a, b));
      body.prepend(...full);
      const end = words ? (down ? "z" : "a") : (down ? "highest" : "lowest");
      spoken.textContent = `Sorted by ${button.textContent}, ${end} first.`;
    });
  });
}

// A run goes from charts and tables while its boxes are not checked; the last one stays.
function hiding(boxes) {
  const alike = (k) => boxes.filter((box) => box.dataset.shows === k);
  const runs = [...new Set(boxes.map((box) => box.dataset.shows))];
  boxes.forEach((box) => box.addEventListener("change", () => {
    const k = box.dataset.shows;
    const left = runs.filter((run) => run === k ? box.checked : alike(run)[0].checked);
    if (!left.length) box.checked = true;
    alike(k).forEach((other) => { other.checked = box.checked; });
    document.querySelectorAll(`[data-run="${k}"]`).forEach((part) => {
      part.classList.toggle("off", !box.checked);
    });
  }));
}

// Whose map and neighbors are shown: those of the others wait in templates.
function maps(choice) {
  const place = document.getElementById("of-run");
  const waiting = {}, opened = {};
  let now = choice.value = choice.options[0].value;
  document.querySelectorAll("template[data-of]").forEach((template) => {
    waiting[template.dataset.of] = [...template.content.children];
  });
  opened[now] = openMap();
  choice.addEventListener("change", () => {
    const before = opened[now];
    waiting[now] = [...place.children];
    now = choice.value;
    place.replaceChildren(...waiting[now]);
    opened[now] ??= openMap();
    const same = before.names.join("\n") === opened[now].names.join("\n");
    if (same) opened[now].choose(before.chosen());
  });
}

function openMap() {
  return map(JSON.parse(document.getElementById("gallery").textContent));
}

function map(data) {
  const plane = document.getElementById("plane");
  const circles = [...document.querySelectorAll("#points circle")];
  const [links, shown, marks, tip, chosen, spoken, pictures] =
    ["links", "shown", "marks", "tip", "chosen", "spoken", "by-pictures"]
      .map((id) => document.getElementById(id));
  const whole = plane.viewBox.baseVal;
  const all = { x: 0, y: 0, w: whole.width, h: whole.height };
  let view = { ...all };
  let selected = null, hovered = null, lit = null;
  const hint = "Choose a point to see which others the encoder finds most like it.";
  let kind = data.label ? "label" : "cluster";

  // ------------------------------------------------------------------ words, pictures
  const groupName = (i) => data.label ? data.labels[data.label[i]] : "";
  const clusterName = (i) => `cluster ${data.cluster[i] + 1}`;

  // A window on the sheet; a hair less, or its neighbors would shine through.
  function cut(i, attributes) {
    const { size, columns } = data, edge = size / 64, side = size - 2 * edge;
    const [left, top] = [(i % columns) * size, Math.floor(i / columns) * size];
    const picture = draw("svg", {
      viewBox: `${left + edge} ${top + edge} ${side} ${side}`, ...attributes,
    });
    if (data.sheet) picture.append(draw("use", { href: `#${data.sheet}` }));
    return picture;
  }

  function thumbnail(i, alt) {
    const picture = cut(i, { class: "thumb" });
    if (alt) {
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", alt);
    } else {
      picture.setAttribute("aria-hidden", "true");
    }
    return picture;
  }

  // ------------------------------------------------------------------ view
  const scale = () => view.w / (plane.clientWidth || view.w); // units in a pixel

  function show(next) {
    const w = Math.min(Math.max(next.w, all.w / 40), all.w);
    const h = w * all.h / all.w;
    const keep = (at, length, whole) => Math.min(Math.max(at, 0), whole - length);
    view = { w, h, x: keep(next.x, w, all.w), y: keep(next.y, h, all.h) };
    plane.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
    resize();
  }

  // Points and words keep their size on the screen, whatever the zoom.
  function resize() {
    const closer = Math.min(1 + 0.35 * Math.log2(all.w / view.w), 2.2);
    const small = Math.min(1, (plane.clientWidth || all.w) / 720);
    const radius = Math.min(5, 120 / Math.sqrt(circles.length) + 1) * closer;
    plane.style.setProperty("--r", `${radius * scale() * Math.max(small, 0.5)}px`);
    plane.style.setProperty("--t", `${(9 + 4 * small) * scale()}px`);
    spread();
    mark();
  }

  // Pictures where there is room for them; the closer one looks, the more.
  function spread() {
    const on = pictures && pictures.checked;
    plane.classList.toggle("pictured", Boolean(on));
    const side = 30 * scale() * Math.max(Math.min(1, plane.clientWidth / 720), 0.6);
    const taken = new Map(); // places of pictures, by the square they lie in
    const made = [];
    data.places.forEach(([x, y], i) => {
      if (!on || circles[i].classList.contains("dim")) return;
      const [a, b] = [Math.floor(x / side), Math.floor(y / side)];
      for (let p = a - 1; p <= a + 1; p += 1) {
        for (let q = b - 1; q <= b + 1; q += 1) {
          const other = taken.get(`${p} ${q}`);
          const close = other &&
            Math.max(Math.abs(other[0] - x), Math.abs(other[1] - y)) < side;
          if (close) return;
        }
      }
      taken.set(`${a} ${b}`, [x, y]);
      const out = x < view.x - side || x > view.x + view.w + side ||
        y < view.y - side || y > view.y + view.h + side;
      if (out) return;
      const box = { x: x - side / 2, y: y - side / 2, width: side, height: side };
      made.push(cut(i, box), draw("rect", { ...box, class: circles[i].getAttribute("class") }));
    });
    shown.replaceChildren(...made);
  }

  // Towards a place: the pointer, what is chosen, or the middle.
  function zoom(factor, x, y) {
    if (x === undefined) {
      const middle = [view.x + view.w / 2, view.y + view.h / 2];
      [x, y] = selected === null ? middle : data.places[selected];
    }
    const w = view.w / factor;
    show({ w, x: x - (x - view.x) / factor, y: y - (y - view.y) / factor });
  }

  function reveal(i) {
    const [x, y] = data.places[i];
    const edge = 0.06 * view.w;
    const outside = x < view.x + edge || x > view.x + view.w - edge ||
      y < view.y + edge || y > view.y + view.h - edge;
    if (outside) show({ w: view.w, x: x - view.w / 2, y: y - view.h / 2 });
  }

  // ------------------------------------------------------------------ finding points
  function at(event) {
    const box = plane.getBoundingClientRect();
    return [
      view.x + (event.clientX - box.left) * view.w / box.width,
      view.y + (event.clientY - box.top) * view.h / box.height,
    ];
  }

  function nearest([x, y], reach) {
    let best = null, least = reach * reach;
    data.places.forEach(([a, b], i) => {
      const far = (a - x) ** 2 + (b - y) ** 2;
      if (far < least) [best, least] = [i, far];
    });
    return best;
  }

  // The next point in a direction: near, and not far off the straight line.
  function beside(i, dx, dy) {
    const [x, y] = data.places[i];
    let best = null, least = Infinity;
    data.places.forEach(([a, b], j) => {
      const ahead = (a - x) * dx + (b - y) * dy;
      const aside = Math.abs((a - x) * dy - (b - y) * dx);
      if (j === i || ahead <= 0 || aside > 2 * ahead) return;
      const cost = ahead + 2 * aside;
      if (cost < least) [best, least] = [j, cost];
    });
    return best;
  }

  // ------------------------------------------------------------------ marks
  function mark() {
    const circle = (i, kind, grow) => {
      const [cx, cy] = data.places[i];
      const r = parseFloat(plane.style.getPropertyValue("--r")) * grow;
      return draw("circle", { class: kind, cx, cy, r });
    };
    const near = selected === null ? [] : data.neighbors[selected];
    marks.replaceChildren(
      ...near.map((j) => circle(j, "near", 1.6)),
      ...(selected === null ? [] : [circle(selected, "here", 2.2)]),
      ...(hovered === null ? [] : [circle(hovered, "over", 1.8)]),
    );
    links.replaceChildren(...near.map((j) => {
      const [[x1, y1], [x2, y2]] = [data.places[selected], data.places[j]];
      return draw("line", { x1, y1, x2, y2 });
    }));
  }

  function hover(i) {
    if (i === hovered) return;
    hovered = i;
    mark();
    tip.hidden = i === null;
    if (i === null) return;
    const words = [groupName(i) || clusterName(i), data.names[i]];
    tip.replaceChildren(
      thumbnail(i), make("b", {}, words[0]), make("span", {}, words[1]),
    );
    // beside the point, on the side where there is room
    const box = plane.getBoundingClientRect();
    const stage = plane.parentElement.getBoundingClientRect();
    const x = (data.places[i][0] - view.x) * box.width / view.w;
    const y = (data.places[i][1] - view.y) * box.height / view.h;
    const left = x < box.width / 2 ? x + 16 : x - tip.offsetWidth - 16;
    const top = y < box.height / 2 ? y : y - tip.offsetHeight;
    const most = stage.width - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(left, most))}px`;
    tip.style.top = `${box.top - stage.top + top}px`;
  }

  function select(i) {
    selected = i;
    mark();
    if (i === null) {
      chosen.replaceChildren(make("p", { class: "note" }, hint));
      spoken.textContent = "Nothing is chosen.";
      return;
    }
    const label = groupName(i), name = data.names[i];
    const about = make("div", {}, make("b", {}, label || clusterName(i)), make("span", {}, name));
    if (label) about.append(make("span", {}, clusterName(i)));
    const near = data.neighbors[i].map((j, k) => {
      const other = groupName(j), same = data.label && data.label[i] === data.label[j];
      const sign = data.label ? (same ? "✓ " : "✗ ") : "";
      const score = data.scores[i][k].toFixed(2);
      const said = `${data.names[j]}${other && `, ${other}`}, cosine ${score}`;
      const button = make("button", { type: "button", title: said, "aria-label": said },
        thumbnail(j), make("span", { "aria-hidden": "true" }, sign + score));
      button.addEventListener("click", () => {
        select(j);
        reveal(j);
        (chosen.querySelector("button") || plane).focus();
      });
      return make("li", data.label ? { class: same ? "right" : "wrong" } : {}, button);
    });
    chosen.replaceChildren(
      make("div", { class: "who" }, thumbnail(i, name), about),
      make("h3", {}, near.length ? "Nearest neighbors, by cosine" : "It has no neighbors"),
      make("ol", {}, ...near),
    );
    const same = data.label && data.neighbors[i].filter((j) => data.label[j] === data.label[i]);
    spoken.textContent = `${name}${label && `, ${label}`}, ${clusterName(i)}.` +
      (same ? ` ${same.length} of ${near.length} neighbors have its label.` : "");
  }

  // ------------------------------------------------------------------ colors
  function paint() {
    circles.forEach((circle, i) => {
      const k = data[kind][i];
      const color = ((k % data.colors) + data.colors) % data.colors;
      const dim = lit !== null && k !== lit ? " dim" : "";
      circle.setAttribute("class", `c${color}${dim}`);
    });
    document.querySelectorAll("[data-kind]").forEach((part) => {
      part.classList.toggle("off", part.dataset.kind !== kind);
    });
    document.querySelectorAll(".legend button").forEach((button) => {
      const own = button.closest("ul").dataset.kind === kind;
      button.setAttribute("aria-pressed", own && Number(button.dataset.k) === lit);
    });
    spread();
  }
  if (pictures) pictures.addEventListener("change", spread);

  document.querySelectorAll("input[name=color]").forEach((input) => {
    input.checked = input.value === kind;
    input.addEventListener("change", () => {
      [kind, lit] = [input.value, null];
      paint();
    });
  });
  document.querySelectorAll(".legend button").forEach((button) => {
    button.addEventListener("click", () => {
      const k = Number(button.dataset.k);
      lit = lit === k ? null : k;
      paint();
    });
  });

  // ------------------------------------------------------------------ pointer and keys
  let drag = null;
  plane.addEventListener("pointerdown", (event) => {
    if (event.button === 0) drag = { x: event.clientX, y: event.clientY, view, far: 0 };
  });
  plane.addEventListener("pointermove", (event) => {
    if (!drag) return hover(nearest(at(event), 14 * scale()));
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    drag.far = Math.max(drag.far, Math.hypot(dx, dy));
    if (drag.far < 5 || event.pointerType === "touch") return undefined;
    if (!plane.hasPointerCapture(event.pointerId)) plane.setPointerCapture(event.pointerId);
    hover(null);
    plane.classList.add("dragged");
    const unit = scale();
    show({ w: drag.view.w, x: drag.view.x - dx * unit, y: drag.view.y - dy * unit });
    return undefined;
  });
  plane.addEventListener("pointerup", (event) => {
    const still = drag && drag.far < 5;
    drag = null;
    plane.classList.remove("dragged");
    if (still) select(nearest(at(event), 20 * scale()));
  });
  plane.addEventListener("pointercancel", () => {
    drag = null;
    plane.classList.remove("dragged");
  });
  plane.addEventListener("pointerleave", () => hover(null));
  plane.addEventListener("wheel", (event) => {
    // the page scrolls past a map that nobody is using
    if (!event.ctrlKey && document.activeElement !== plane) return;
    event.preventDefault();
    hover(null);
    zoom(Math.exp(-event.deltaY / 300), ...at(event));
  }, { passive: false });

  const zooms = { in: () => zoom(1.6), out: () => zoom(1 / 1.6), all: () => show(all) };
  document.querySelectorAll("[data-zoom]").forEach((button) => {
    button.addEventListener("click", zooms[button.dataset.zoom]);
  });
  const steps = {
    ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
  };
  const keys = {
    "+": zooms.in, "=": zooms.in, "-": zooms.out, 0: zooms.all,
    Escape: () => select(null),
    Home: () => go(0),
    End: () => go(circles.length - 1),
    Enter: () => chosen.querySelector("button")?.focus(),
  };
  function go(i) {
    if (i === null) return;
    select(i);
    reveal(i);
  }
  plane.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = steps[event.key];
    const centre = [view.x + view.w / 2, view.y + view.h / 2];
    if (step) go(selected === null ? nearest(centre, Infinity) : beside(selected, ...step));
    else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault();
  });

  new ResizeObserver(resize).observe(plane);
  select(null);
  spoken.textContent = "";
  paint();
  resize();
  return {
    names: data.names,
    chosen: () => selected,
    choose: (i) => { select(i); if (i !== null) reveal(i); },
  };
}
