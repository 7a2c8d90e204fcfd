// The table of records: only the rows in sight are in the document, so that ten thousand scroll lightly.

const ROW = 30;

const table = (run, spent) => {
  const { records, fidelities, parameters } = run;
  const section = $("#records");
  const box = $(".rows", section);
  const body = $("tbody", box);
  const count = records.value.length;
  const unit = run.measured ? " (s)" : "";
  const name = (m) => fidelities[m].name;
  const reasons = Array.from({ length: count }, (_, id) => records.reason[id] ?? null);
  const columns = [
    { title: "query", values: Array.from({ length: count }, (_, id) => id) },
    { title: "fidelity", values: records.fidelity, show: name, dot: true },
    ...parameters.map((p, i) => {
      const absent = new Set(records.absent?.[i]);
      const values = records.x[i].map((value, id) => (absent.has(id) ? null : p.labels ? p.labels[value] : value));
      return { title: p.name, values, text: Boolean(p.labels) };
    }),
    { title: "value", values: records.value },
    ...(records.error ? [{ title: "standard error", values: records.error }] : []),
    ...(records.feasible ? [{ title: "feasible", values: records.feasible.map((kept) => (kept ? "yes" : "no")), text: true }] : []),
    { title: `cost${unit}`, values: records.cost },
    { title: `capital spent${unit}`, values: spent },
    { title: "status", values: records.status, text: true },
    { title: "deciding (s)", values: records.deciding },
    { title: "evaluating (s)", values: records.evaluating },
    { title: "reason", values: reasons, text: true },
  ];
  let digits = false;
  let order = [];
  let sort = { column: columns[0], sign: 1 };
  const filter = { fidelity: "all", status: "all" };
  const show = (column, id) => {
    const value = column.values[id];
    if (value === null) return "";
    if (column.show) return column.show(value);
    return column.text ? value : digits ? String(value) : brief(value);
  };

  const widths = () => {
    const cols = columns.map((column) => {
      let longest = 0;
      for (let id = 0; id < count; id++) longest = Math.max(longest, show(column, id).length);
      const title = Math.min(column.title.length, 24) + 2;
      return Math.min(Math.max(longest + 1, title), 60) + (column.dot ? 2 : 0);
    });
    $("colgroup", box).replaceChildren(...cols.map((ch) => el("col", { style: { width: `calc(${ch}ch + 1.5rem)` } })));
    $("table", box).style.width = `calc(${cols.reduce((a, b) => a + b, 0)}ch + ${1.5 * cols.length}rem)`;
  };

  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
  const arrange = () => {
    const { column, sign } = sort;
    order = columns[0].values.filter(
      (id) =>
        (filter.fidelity === "all" || records.fidelity[id] === Number(filter.fidelity)) &&
        (filter.status === "all" || records.status[id] === filter.status),
    );
    order.sort((i, j) => {
      const [a, b] = [column.values[i], column.values[j]];
      if (a === null || b === null) return (a === null) - (b === null) || i - j;
      return sign * compare(a, b) || i - j;
    });
    $("output", section).textContent = `${grouped(order.length)} of ${grouped(count)} records`;
    $("table", box).setAttribute("aria-rowcount", String(order.length + 1));
    box.scrollTop = 0;
    draw();
  };

  const row = (id, place) => {
    const cells = columns.map((column) => {
      const text = show(column, id);
      const cell = el("td", column.text || column.show ? {} : { class: "number" });
      if (column.dot) cell.append(el("span", { class: "dot", style: { "--of": `var(--f${records.fidelity[id]})` } }));
      cell.append(text);
      if (column.values[id] !== null) cell.title = String(column.show ? text : column.values[id]);
      return cell;
    });
    return el("tr", { "aria-rowindex": String(place + 2), ...(id === run.best ? { class: "best" } : {}) }, ...cells);
  };
  const space = (rows) => {
    const cell = el("td", { colspan: String(columns.length), style: { height: `${rows * ROW}px` } });
    return el("tr", { class: "space", "aria-hidden": "true" }, cell);
  };
  const draw = () => {
    const first = Math.max(0, Math.min(Math.floor(box.scrollTop / ROW) - 10, order.length - 1));
    const last = Math.min(order.length, first + Math.ceil((box.clientHeight || 600) / ROW) + 20);
    const rows = order.slice(first, last).map((id, k) => row(id, first + k));
    body.replaceChildren(space(first), ...rows, space(order.length - last));
  };

  const heads = columns.map((column) => {
    const button = el("button", { type: "button", title: column.title }, column.title);
    const head = el("th", { scope: "col", ...(column.text || column.show ? {} : { class: "number" }) }, button);
    button.addEventListener("click", () => {
      sort = { column, sign: sort.column === column ? -sort.sign : 1 };
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sort.sign > 0 ? "ascending" : "descending");
      arrange();
    });
    return head;
  });
  $("thead tr", box).replaceChildren(...heads);
  heads[0].setAttribute("aria-sort", "ascending");
  const among = (name) => (value) => {
    filter[name] = value;
    arrange();
  };
  select($("#of-fidelity"), [["all", "all"], ...fidelities.map(({ name }, m) => [String(m), name])], among("fidelity"));
  select($("#of-status"), ["all", "done", "failed", "pending"].map((status) => [status, status]), among("status"));
  $("#digits").addEventListener("change", (event) => {
    digits = event.target.checked;
    widths();
    draw();
  });
  let waiting = false;
  box.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  });
  addEventListener("resize", draw);
  widths();
  arrange();
};
