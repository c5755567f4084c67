"use strict";
// Text of hosts only ever becomes text: this script builds elements and sets textContent.
(() => {
  const PAGE = 50;
  const PRINTED = 5000;
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const tables = read("tables");
  const outliers = new Map(Object.entries(tables.outliers));
  const text = (place) => (place < 0 ? "" : tables.texts[place]);
  const keys = tables.groups.map(([key]) => key);
  const order = new Intl.Collator(undefined, { numeric: true });
  const $ = (id) => document.getElementById(id);

  const findings = tables.findings.map(([id, key, outcome, severity, message, blocked, waived]) => ({
    id: text(id), key: keys[key], outcome: text(outcome), severity: text(severity), message: text(message),
    blocked: text(blocked), waived: text(waived),
  }));
  const hosts = read("hosts").map((row) => {
    const [name, state, verdict, reason, groups, found, passed, skipped, unseen, next, seconds, traits, said, platform, distribution, file] = row;
    const list = found.map((place) => findings[place]);
    const count = (key) => list.reduce((sum, item) => sum + (item.key === key), 0);
    return {
      name, file, passed, skipped, unseen, seconds, traits, findings: list, groups: groups.map(text),
      state: text(state), reason: text(reason), next: text(next), said: text(said), platform: text(platform), distribution: text(distribution),
      verdict: text(state) === "audited" ? text(verdict) : text(state),
      fail: count("fail"), warn: count("warn"), unknown: count("unknown"), unlike: (outliers.get(name) ?? []).length, words: null,
    };
  });

  const search = $("filter");
  const boxes = [...document.querySelectorAll("#bar input[type=checkbox]")];
  const groupBox = $("group");
  let finding = "";
  let sorted = { key: "verdict", up: true };
  let first = 0;
  let shown = hosts;

  function wordsOf(host) {
    host.words ??= [
      host.name, host.said, host.verdict, host.reason, host.platform, ...host.groups,
      ...host.findings.flatMap((item) => [item.id, item.message]), ...host.traits.map(text),
    ].join("\n").toLowerCase();
    return host.words;
  }

  const keyOf = {
    host: (host) => host.name, groups: (host) => host.groups.join(" "), next: (host) => host.next || "~",
    verdict: (host) => tables.standings.indexOf(host.verdict),
    fail: (host) => -host.fail, warn: (host) => -host.warn, unknown: (host) => -host.unknown, unlike: (host) => -host.unlike,
  };

  function filter() {
    const started = performance.now();
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const standings = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const group = groupBox ? groupBox.value : "";
    shown = hosts.filter((host) => standings.has(host.verdict)
      && (!group || host.groups.includes(group))
      && (!finding || host.findings.some((item) => item.id === finding && item.key !== "explained"))
      && (!words.length || words.every((word) => wordsOf(host).includes(word))));
    const key = keyOf[sorted.key];
    const compare = (a, b) => {
      const [left, right] = [key(a), key(b)];
      return typeof left === "number" ? left - right : order.compare(left, right);
    };
    shown.sort((a, b) => (sorted.up ? 1 : -1) * compare(a, b) || order.compare(a.name, b.name));
    first = 0;
    show();
    $("sheet").getBoundingClientRect();  // so that laying out counts too
    $("shown").title = `${(performance.now() - started).toFixed(1)} ms`;
  }

  function element(tag, content, attributes = {}) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (content !== undefined) made.append(...[content].flat());
    return made;
  }

  const MARKS = { broken: "✗", degraded: "!", healthy: "✓" };

  function rowOf(host) {
    const open = element("button", host.name, { type: "button", class: "pick" });
    open.addEventListener("click", () => detail(host));
    const cell = (value, label, cls) => element("td", String(value), { "data-label": label, ...(cls ? { class: cls } : {}) });
    return element("tr", [
      element("td", open, { class: "id" }),
      cell(`${MARKS[host.verdict] ?? "?"} ${host.verdict}`, "", `outcome ${host.verdict}`),
      cell(host.fail || "", "errors", "number"), cell(host.warn || "", "warnings", "number"), cell(host.unknown || "", "not seen", "number"),
      cell(host.unlike || "", "differs in", "number"),
      cell(host.next || host.reason, "begin with"), cell(host.groups.join(" "), "groups"),
    ]);
  }

  function show(all = false) {
    const part = all ? shown.slice(0, PRINTED) : shown.slice(first, first + PAGE);
    $("rows").replaceChildren(...part.map(rowOf));
    $("none").hidden = shown.length > 0;
    $("pager").hidden = shown.length <= PAGE;
    $("where").textContent = `${first + 1} to ${Math.min(first + PAGE, shown.length)} of ${shown.length}`;
    $("back").disabled = first === 0;
    $("on").disabled = first + PAGE >= shown.length;
    $("shown").textContent = `${shown.length} of ${hosts.length} hosts`;
    const chip = $("finding");
    chip.hidden = !finding;
    chip.textContent = `${finding} ✕`;
  }

  function detail(host) {
    const close = element("button", "Close", { type: "button" });
    close.addEventListener("click", () => $("host").close());
    const about = [host.distribution, host.platform, host.groups.join(" "), host.said && host.said !== host.name ? `calls itself ${host.said}` : "",
      host.seconds ? `${host.seconds.toFixed(1)} s` : "", host.file ? `report: ${host.file}` : ""].filter(Boolean).join(", ");
    const parts = [
      element("div", [element("span", host.verdict, { class: `verdict ${host.verdict}` }), element("h2", host.name, { id: "host-name" }), close], { class: "head" }),
      element("p", about, { class: "quiet" }),
    ];
    if (host.reason) parts.push(element("p", host.reason));
    for (const [key, title] of tables.groups) {
      const found = host.findings.filter((item) => item.key === key);
      if (!found.length) continue;
      parts.push(element("h3", `${title} (${found.length})`));
      parts.push(table(found.map((item) => element("tr", [
        element("td", element("code", item.id), { class: `id ${key}` }),
        element("td", item.message + (item.blocked ? ` (explained by ${item.blocked})` : "") + (item.waived ? ` (waived: ${item.waived})` : "")),
      ]))));
    }
    if (host.state === "audited") parts.push(element("p", `${host.passed} passed, ${host.skipped} do not apply, ${host.unseen} facts not seen`, { class: "quiet" }));
    const unlike = new Map((outliers.get(host.name) ?? []).map(([place, usual, group]) => [place, [text(usual), text(group)]]));
    const rows = tables.traits.flatMap(([path, title], place) => {
      if (host.traits[place] < 0) return [];
      const other = unlike.get(place);
      const value = text(host.traits[place]) + (other ? ` (usual in ${other[1]}: ${other[0]})` : "");
      return [element("tr", [element("td", title, { class: "id", title: path }), element("td", value)], other ? { class: "unlike" } : {})];
    });
    if (rows.length) parts.push(element("h3", "What it is compared by"), table(rows.sort((a, b) => b.classList.contains("unlike") - a.classList.contains("unlike"))));
    $("host").replaceChildren(...parts);
    $("host").showModal();
    $("host").scrollTop = 0;
  }

  const table = (rows) => element("div", element("table", element("tbody", rows)), { class: "sheet" });

  function remember() {
    const state = new URLSearchParams();
    if (search.value) state.set("filter", search.value);
    if (finding) state.set("finding", finding);
    if (groupBox && groupBox.value) state.set("group", groupBox.value);
    if (boxes.some((box) => !box.checked)) state.set("show", boxes.filter((box) => box.checked).map((box) => box.value).join(","));
    if (sorted.key !== "verdict" || !sorted.up) state.set("sort", `${sorted.up ? "" : "-"}${sorted.key}`);
    history.replaceState(null, "", `#${state}`);
  }

  function recall() {
    const state = new URLSearchParams(location.hash.slice(1));
    search.value = state.get("filter") ?? "";
    finding = state.get("finding") ?? "";
    if (groupBox) groupBox.value = state.get("group") ?? "";
    const standings = state.get("show")?.split(",");
    for (const box of boxes) box.checked = !standings || standings.includes(box.value);
    const wanted = state.get("sort");
    if (wanted) sorted = { key: wanted.replace("-", ""), up: !wanted.startsWith("-") };
    if (!Object.hasOwn(keyOf, sorted.key)) sorted = { key: "verdict", up: true };
    filter();
    const name = state.get("host");
    const host = name && hosts.find((item) => item.name === name);
    if (host) detail(host);
  }

  function pick(chosen) {
    search.value = "";
    finding = chosen.finding ?? "";
    if (groupBox) groupBox.value = chosen.group ?? "";
    for (const box of boxes) box.checked = !chosen.standing || box.value === chosen.standing;
    filter();
    remember();
    $("all").scrollIntoView();
  }

  function sortMarkup(head) {
    const column = [...head.parentNode.children].indexOf(head);
    const up = head.getAttribute("aria-sort") !== "ascending";
    mark(head, up);
    const key = (row) => row.children[column].dataset.key ?? row.children[column].textContent;
    for (const body of head.closest("table").tBodies) {
      const rows = [...body.querySelectorAll(":scope > tr:not(.group)")].filter((row) => row.children.length > column);
      rows.sort((a, b) => (up ? 1 : -1) * order.compare(key(a), key(b)));
      body.append(...rows);
    }
  }

  function mark(head, up) {
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
  }

  document.querySelectorAll("th[data-key]").forEach((head) => {
    const button = element("button", [...head.childNodes], { type: "button" });
    const isHosts = head.closest("table").classList.contains("hosts");
    button.addEventListener("click", () => {
      if (!isHosts) return sortMarkup(head);
      sorted = { key: head.dataset.key, up: sorted.key === head.dataset.key ? !sorted.up : true };
      mark(head, sorted.up);
      filter();
      remember();
    });
    head.append(button);
  });
  document.querySelectorAll(".pick[data-finding], .pick[data-group], .pick[data-standing]").forEach((button) => {
    button.addEventListener("click", () => pick(button.dataset));
  });
  const changed = () => { filter(); remember(); };
  search.addEventListener("input", changed);
  boxes.forEach((box) => box.addEventListener("change", changed));
  groupBox?.addEventListener("change", changed);
  $("finding").addEventListener("click", () => { finding = ""; changed(); });
  $("back").addEventListener("click", () => { first = Math.max(0, first - PAGE); show(); $("all").scrollIntoView(); });
  $("on").addEventListener("click", () => { first += PAGE; show(); $("all").scrollIntoView(); });
  $("host").addEventListener("click", (event) => { if (event.target === $("host")) $("host").close(); });
  addEventListener("hashchange", recall);
  addEventListener("beforeprint", () => show(true));
  addEventListener("afterprint", () => show());
  $("bar").hidden = false;
  $("sheet").hidden = false;
  recall();
})();
