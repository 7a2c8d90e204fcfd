// A table of which only the rows in sight are in the document: sorted, searched and filtered by an array of indices.

const HEIGHT = 30;
const MOST_HIGH = 608; // of the box, as page.css has it
const PART = 2000; // rows whose words are made at a time
const brief = (value) => String(Number.isInteger(value) ? value : Number(value.toPrecision(6)));
const shown = (value) => (value === null || value === undefined ? "" : typeof value === "number" ? brief(value) : value);
const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

class RecordTable {
  constructor(place, choose) {
    this.place = place;
    this.choose = choose;
    this.rows = [];
    this.words = []; // of each row, what the search looks through
    this.columns = [];
    this.order = [];
    this.sorted = { column: 0, down: false };
    this.chosen = {};
    this.box = $(".scroll", place);
    this.head = $("thead tr", place);
    this.body = $("tbody", place);
    this.box.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()));
    this.body.addEventListener("click", ({ target }) => {
      const row = target.closest("tr[data-row]");
      if (row) this.choose(Number(row.dataset.row));
    });
    $("input[type=search]", place).addEventListener("input", () => this.arrange());
    $(".csv", place).addEventListener("click", () => this.save());
  }

  /** Take the columns and the rows that are new or have changed, each with its number. */
  take(columns, changed, best) {
    const titles = columns.map(({ title }) => title).join("\n");
    if (titles !== this.columns.map(({ title }) => title).join("\n")) {
      this.columns = columns;
      this.widths = columns.map(({ title }) => title.length + 3);
      this.rows = [];
      this.words = [];
      this.heads();
    }
    this.columns.forEach((column, k) => (column.kind = columns[k].kind));
    this.best = best;
    for (const [index, cells] of changed) {
      this.rows[index] = cells;
      this.words[index] = undefined;
      cells.forEach((cell, k) => (this.widths[k] = Math.max(this.widths[k], Math.min(shown(cell).length + 1, 48))));
    }
    $("colgroup", this.place).replaceChildren(
      ...this.widths.map((width) => Object.assign(element("col"), { style: `width: ${width + 1}ch` })),
    );
    $("table", this.place).style.width = `${this.widths.reduce((sum, width) => sum + width + 1, 0)}ch`;
    this.filters();
    this.arrange(true);
    clearTimeout(this.preparing);
    this.preparing = setTimeout(() => this.prepare(0));
  }

  searched(k) {
    return (this.words[k] ??= this.rows[k].join("\n").toLowerCase());
  }

  /** Make the words of all rows, some at a time, so that the first letter of a search need not wait for them. */
  prepare(from) {
    const end = Math.min(from + PART, this.rows.length);
    for (let k = from; k < end; k++) this.searched(k);
    if (end < this.rows.length) this.preparing = setTimeout(() => this.prepare(end));
  }

  heads() {
    this.head.replaceChildren(
      ...this.columns.map(({ title, kind }, k) => {
        const button = element("button", { type: "button", textContent: title });
        button.addEventListener("click", () => this.sort(k));
        return element("th", { scope: "col", className: kind }, button);
      }),
    );
  }

  filters() {
    const place = $(".filters", this.place);
    for (const [k, { title }] of this.columns.entries()) {
      if (title !== "fidelity" && title !== "status") continue;
      const values = ["", ...new Set(this.rows.map((row) => row[k]))];
      let select = $(`select[data-of="${title}"]`, place);
      if (!select) {
        select = element("select", { ariaLabel: title });
        select.dataset.of = title;
        select.addEventListener("change", () => this.arrange());
        place.append(select);
      }
      if (select.options.length === values.length) continue;
      const before = select.value;
      select.replaceChildren(...values.map((value) => element("option", { value, textContent: value || `every ${title}` })));
      select.value = values.includes(before) ? before : "";
    }
  }

  sort(column) {
    this.sorted = { column, down: this.sorted.column === column && !this.sorted.down };
    this.arrange();
  }

  /** Which rows are there, in which order. */
  arrange(stay = false) {
    const { column, down } = this.sorted;
    const words = $("input[type=search]", this.place).value.trim().toLowerCase();
    const selects = [...this.place.querySelectorAll("select[data-of]")].filter((select) => select.value);
    const wanted = selects.map((select) => [this.columns.findIndex(({ title }) => title === select.dataset.of), select.value]);
    const fits = (k) => wanted.every(([at, value]) => this.rows[k][at] === value) && (!words || this.searched(k).includes(words));
    this.order = [];
    for (let k = 0; k < this.rows.length; k++) if (fits(k)) this.order.push(k);
    if (column || down) {
      const cells = this.rows.map((row) => row[column]);
      const sign = down ? -1 : 1;
      if (cells.every((cell) => cell === null || typeof cell === "number"))
        this.order.sort((a, b) =>
          cells[a] === null || cells[b] === null ? (cells[a] === null) - (cells[b] === null) || a - b : sign * (cells[a] - cells[b]) || a - b,
        );
      else {
        const order = new Intl.Collator("en", { numeric: true }).compare; // numbers may be texts here: choices
        const ranks = new Map([...new Set(cells)].sort((a, b) => order(a ?? "", b ?? "")).map((cell, rank) => [cell, rank]));
        const keys = cells.map((cell) => ranks.get(cell));
        this.order.sort((a, b) => sign * (keys[a] - keys[b]) || a - b);
      }
    }
    [...this.head.children].forEach((head, k) =>
      head.setAttribute("aria-sort", k !== column ? "none" : down ? "descending" : "ascending"),
    );
    if (!stay) this.box.scrollTop = 0;
    const all = this.rows.length;
    const part = this.order.length === all ? "" : ` of ${all.toLocaleString("en")}`;
    $(".count", this.place).textContent = `${this.order.length.toLocaleString("en")}${part} records`;
    this.draw();
  }

  /** Put the rows in sight into the document. */
  draw() {
    const above = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - 4);
    const below = Math.min(this.order.length, above + Math.ceil(Math.max(this.box.clientHeight, MOST_HIGH) / HEIGHT) + 8);
    const space = (count) => element("tr", { className: "space", style: `height: ${count * HEIGHT}px` });
    const rows = this.order.slice(above, below).map((index) => {
      const row = element("tr", { className: index === this.best ? "best" : "" });
      row.dataset.row = index;
      this.rows[index].forEach((cell, k) => {
        const text = shown(cell);
        const inside = k ? text : element("button", { type: "button", className: "link", textContent: text });
        row.append(element("td", { className: this.columns[k].kind, title: cell === null ? "" : String(cell) }, inside));
      });
      return row;
    });
    this.body.replaceChildren(space(above), ...rows, space(this.order.length - below));
  }

  /** What is shown as a CSV file, with all digits. */
  save() {
    const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
    const line = (cells) => cells.map((cell) => quoted(cell === null ? "" : String(cell))).join(",");
    const lines = [line(this.columns.map(({ title }) => title)), ...this.order.map((index) => line(this.rows[index]))];
    const href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
    element("a", { href, download: "records.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(href), 1000);
  }
}
