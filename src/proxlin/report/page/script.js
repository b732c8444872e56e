"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const remember = (theme) => {
    try { localStorage.setItem("proxlin-theme", theme); } catch { /* no storage: this visit only */ }
  };
  const recall = () => {
    try { return localStorage.getItem("proxlin-theme"); } catch { return null; }
  };
  const label = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Show the page light" : "Show the page dark");
  };
  const stored = recall();
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  button.hidden = false;
  button.removeAttribute("aria-pressed");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    label();
  });
  dark.addEventListener("change", label);
  label();
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });

  const compare = (numeric) => (one, other) => numeric
    ? one.number - other.number
    : one.text.localeCompare(other.text, "en", { numeric: true });

  const sort = (table, head, column) => {
    const rising = head.getAttribute("aria-sort") !== "ascending";
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => {
      const cell = row.cells[column];
      return { row, number: parseFloat(cell.dataset.value), text: cell.textContent.trim() };
    });
    const numeric = head.classList.contains("number");
    const empty = (item) => (numeric ? Number.isNaN(item.number) : item.text === "");
    const full = rows.filter((item) => !empty(item)).sort(compare(numeric));
    if (!rising) full.reverse();
    body.append(...[...full, ...rows.filter(empty)].map((item) => item.row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const press = document.createElement("button");
      press.type = "button";
      press.title = "Sort by this column";
      press.append(...head.childNodes);
      head.append(press);
      press.addEventListener("click", () => sort(table, head, column));
    });
  }
})();
