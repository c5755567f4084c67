"use strict";
// Everything is readable without this script; it only hides, sorts and unfolds what is there.
(() => {
  const host = document.querySelector("section.host");
  const search = document.querySelector("#filter");
  const boxes = [...document.querySelectorAll("#bar input[type=checkbox]")];
  const shown = document.querySelector("#shown");
  const rows = [...document.querySelectorAll("tr.finding")].map((row) => ({
    row, group: row.dataset.group, text: `${host.dataset.host} ${row.textContent}`.toLowerCase(),
  }));

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const groups = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let count = 0;
    for (const { row, group, text } of rows) {
      row.hidden = !groups.has(group) || !words.every((word) => text.includes(word));
      count += row.hidden ? 0 : 1;
    }
    for (const body of document.querySelectorAll(".findings > tbody")) {
      body.hidden = !body.querySelector("tr.finding:not([hidden])");
    }
    host.querySelector(".none").hidden = count > 0;
    shown.textContent = `${count} of ${rows.length} shown`;
  }

  function remember() {
    const state = new URLSearchParams();
    if (search.value) state.set("filter", search.value);
    state.set("show", boxes.filter((box) => box.checked).map((box) => box.value).join(","));
    history.replaceState(null, "", `#${state}`);
  }

  function recall() {
    const state = new URLSearchParams(location.hash.slice(1));
    if (state.has("filter")) search.value = state.get("filter");
    if (state.has("show")) {
      const groups = state.get("show").split(",");
      for (const box of boxes) box.checked = groups.includes(box.value);
    }
    const target = location.hash.startsWith("#f") ? document.getElementById(location.hash.slice(1)) : null;
    if (target) {
      for (const box of boxes) if (box.value === target.dataset.group) box.checked = true;
      target.querySelector("details").open = true;
    }
    filter();
    if (target) target.scrollIntoView({ block: "center" });
    if (state.has("sort")) document.querySelector(`th[data-key="${CSS.escape(state.get("sort"))}"] button`)?.click();
  }

  function sort(head) {
    const table = head.closest("table");
    const column = [...head.parentNode.children].indexOf(head);
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const order = new Intl.Collator(undefined, { numeric: true });
    const key = (row) => row.children[column].dataset.key ?? row.children[column].textContent;
    for (const body of table.tBodies) {
      const found = [...body.querySelectorAll(":scope > tr:not(.group)")];
      found.sort((a, b) => (up ? 1 : -1) * order.compare(key(a), key(b)));
      body.append(...found);
    }
  }

  document.querySelectorAll("th[data-key]").forEach((head) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(head));
    head.append(button);
  });
  search.addEventListener("input", () => { filter(); remember(); });
  boxes.forEach((box) => box.addEventListener("change", () => { filter(); remember(); }));
  addEventListener("hashchange", recall);
  const opened = [];
  addEventListener("beforeprint", () => {
    const violated = ["fail", "warn", "note"].map((group) => `tr[data-group=${group}]:not([hidden]) details:not([open])`);
    for (const fold of document.querySelectorAll(violated.join())) {
      fold.open = true;
      opened.push(fold);
    }
  });
  addEventListener("afterprint", () => { for (const fold of opened.splice(0)) fold.open = false; });
  document.querySelector("#bar").hidden = false;
  recall();
})();
