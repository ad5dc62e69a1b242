"use strict";
const shown = JSON.parse(document.getElementById("details").textContent);
for (const svg of document.querySelectorAll("svg.graph")) {
  const view = svg.closest(".view"), canvas = svg.parentElement, panel = view.querySelector(".details");
  const scene = svg.querySelector(".scene"), hint = panel.innerHTML, details = shown[svg.id];
  const wide = Number(svg.dataset.width), tall = Number(svg.dataset.height);
  let scale = 1, left = 0, top = 0, kept = null;
  svg.removeAttribute("viewBox");

  const put = () => scene.setAttribute("transform", `translate(${left} ${top}) scale(${scale})`);
  // All of it where that can be read; else its width, from the top, or what stands there.
  let first = null;
  for (const box of svg.querySelectorAll("[data-id] > rect:first-of-type")) {
    const place = box.getBBox();
    if (!first || place.y < first.y) first = place;
  }
  const fit = () => {
    const room = canvas.getBoundingClientRect();
    const whole = Math.min(room.width / wide, room.height / tall, 1.4);
    scale = whole >= 0.6 ? whole : Math.min(1, Math.max(room.width / wide, 0.6));
    left = (room.width - wide * scale) / 2;
    top = whole >= 0.6 ? (room.height - tall * scale) / 2 : 0;
    if (wide * scale > room.width) {
      const middle = room.width / 2 - (first.x + first.width / 2) * scale;
      left = Math.min(0, Math.max(middle, room.width - wide * scale));
    }
    put();
  };
  const show = (id) => {
    panel.replaceChildren();
    if (!id) {
      panel.innerHTML = hint;
    } else {
      const [[title], ...rows] = details[id], list = document.createElement("dl"), head = document.createElement("h3");
      head.textContent = title;
      for (const [name, value] of rows) {
        const dt = document.createElement("dt"), dd = document.createElement("dd");
        dt.textContent = name;
        dd.textContent = value;
        list.append(dt, dd);
      }
      panel.append(head, list);
    }
    svg.classList.toggle("picked", Boolean(id));
    for (const box of svg.querySelectorAll("[data-id]")) box.classList.toggle("on", box.dataset.id === id);
    for (const edge of svg.querySelectorAll(".edge")) {
      const ends = `${edge.dataset.from} ${edge.dataset.to}`.split(" ");
      edge.classList.toggle("on", Boolean(id) && ends.includes(id));
    }
  };
  const idOf = (event) => event.target.closest("[data-id]")?.dataset.id ?? null;

  let held = null, moved = false;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX - left, y: event.clientY - top, fromX: event.clientX, fromY: event.clientY };
    moved = false;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return;
    if (!moved && Math.hypot(event.clientX - held.fromX, event.clientY - held.fromY) < 4) return;
    if (!moved) canvas.setPointerCapture(event.pointerId);
    moved = true;
    canvas.classList.add("held");
    left = event.clientX - held.x;
    top = event.clientY - held.y;
    put();
  });
  const release = () => {
    held = null;
    canvas.classList.remove("held");
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("click", (event) => {
    if (moved) return;
    const id = idOf(event);
    kept = kept === id ? null : id;
    show(kept);
  });
  canvas.addEventListener("pointerover", (event) => {
    if (!kept && !held) show(idOf(event));
  });
  canvas.addEventListener("dblclick", fit);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const room = canvas.getBoundingClientRect(), x = event.clientX - room.left, y = event.clientY - room.top;
    const by = Math.exp(-event.deltaY * 0.0015), next = Math.min(4, Math.max(0.05, scale * by));
    left = x - ((x - left) * next) / scale;
    top = y - ((y - top) * next) / scale;
    scale = next;
    put();
  }, { passive: false });
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Enter") show((kept = idOf(event)));
    if (event.key === "Escape") show((kept = null));
  });
  const centre = (id) => {
    const box = svg.querySelector(`[data-id="${id}"] > rect`).getBBox(), room = canvas.getBoundingClientRect();
    scale = Math.max(scale, 0.8);
    left = room.width / 2 - (box.x + box.width / 2) * scale;
    top = room.height / 2 - (box.y + box.height / 2) * scale;
    put();
  };
  for (const row of document.querySelectorAll(`tr[data-drawing="${svg.id}"]`)) {
    row.addEventListener("click", () => {
      show((kept = row.dataset.box));
      centre(kept);
      view.scrollIntoView({ block: "nearest" });
    });
  }
  // Boxes whose text has what is sought; Enter goes from one to the next.
  const find = view.querySelector(".find");
  let found = [], next = 0;
  find.addEventListener("input", () => {
    const sought = find.value.trim().toLowerCase();
    found = [];
    next = 0;
    svg.classList.toggle("sought", sought !== "");
    for (const box of svg.querySelectorAll(".node")) {
      const is = sought !== "" && details[box.dataset.id].flat().join(" ").toLowerCase().includes(sought);
      box.classList.toggle("found", is);
      if (is) found.push(box.dataset.id);
    }
  });
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !found.length) return;
    show((kept = found[next++ % found.length]));
    centre(kept);
  });
  fit();
  addEventListener("resize", fit);
}
for (const head of document.querySelectorAll("th.sorts")) {
  head.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0], column = head.cellIndex;
    const down = (head.dataset.down = head.dataset.down === "1" ? "0" : "1") === "1";
    const value = (row) => Number(row.cells[column].dataset.value);
    body.append(...[...body.rows].sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b))));
  });
}
