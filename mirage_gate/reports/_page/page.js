"use strict";
// The page says everything without this. It adds arrow keys to the map, and shows a cell's
// story in the line below while the cell is pointed at or has the focus.
for (const table of document.querySelectorAll("table.map")) {
  const rows = [...table.rows].map((row) => [...row.querySelectorAll("td")]).filter((row) => row.length);
  const line = table.closest("details").querySelector(".detail");
  if (!rows.length || !line) continue;
  let current = table.querySelector("td.hole, td.gap") || rows[0][0];
  for (const cells of rows) for (const cell of cells) cell.tabIndex = -1;
  current.tabIndex = 0;
  line.textContent += " The arrow keys move between cells.";
  const tell = (cell) => { line.textContent = cell.title; };
  table.addEventListener("mouseover", (event) => {
    const cell = event.target.closest("td");
    if (cell) tell(cell);
  });
  table.addEventListener("focusin", (event) => {
    const cell = event.target.closest("td");
    if (!cell) return;
    current.tabIndex = -1;
    current = cell;
    current.tabIndex = 0;
    tell(cell);
  });
  table.addEventListener("click", (event) => {
    const cell = event.target.closest("td");
    if (cell) cell.focus();
  });
  table.addEventListener("keydown", (event) => {
    const down = rows.findIndex((cells) => cells.includes(event.target));
    if (down < 0) return;
    const right = rows[down].indexOf(event.target);
    const last = rows[down].length - 1;
    const next = {
      ArrowLeft: () => rows[down][Math.max(0, right - 1)],
      ArrowRight: () => rows[down][Math.min(last, right + 1)],
      ArrowUp: () => rows[Math.max(0, down - 1)][right],
      ArrowDown: () => rows[Math.min(rows.length - 1, down + 1)][right],
      Home: () => rows[down][0],
      End: () => rows[down][last],
    }[event.key];
    if (!next || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    next().focus();
  });
}
// A link into a part that is folded away opens it.
const reveal = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();
// Paper folds nothing away.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details.sheet, details.level:not(.note)")) part.open = true;
});
// The sign that a map goes on to the right is there while it does.
for (const scroll of document.querySelectorAll(".scroll")) {
  const frame = scroll.parentElement, said = frame.previousElementSibling;
  const tell = () => {
    const wide = scroll.scrollWidth > scroll.clientWidth + 1;
    if (said) said.hidden = !wide;
    frame.classList.toggle("end", scroll.scrollLeft + scroll.clientWidth >= scroll.scrollWidth - 1);
  };
  scroll.addEventListener("scroll", tell, { passive: true });
  new ResizeObserver(tell).observe(scroll);
}
