// Unpack the page, hand the pictures to plotly and the records to DataTables, and dress both in the theme.

const root = document.documentElement;
const $ = (selector, within = document) => within.querySelector(selector);
const inflate = (id) => {
  const bytes = Uint8Array.from(atob($(id).textContent), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
const system = matchMedia("(prefers-color-scheme: dark)");
const drawn = [];
let chosen = root.dataset.chosen ?? null;

/** Put the colours that a picture names into what plotly draws. */
const dress = (named, live, style) => {
  for (const [key, value] of Object.entries(named)) {
    if (typeof value === "string" && value.startsWith("--")) live[key] = style.getPropertyValue(value).trim();
    else if (value && typeof value === "object" && typeof value.at?.(-1) !== "number" && live[key]) dress(value, live[key], style);
  }
};

const setTheme = () => {
  const dark = chosen === null ? system.matches : chosen === "dark";
  root.dataset.theme = dark ? "dark" : "light";
  root.classList.toggle("dark", dark);
  $("#theme").textContent = dark ? "Light" : "Dark";
  $("#theme").setAttribute("aria-label", `${dark ? "Light" : "Dark"} theme`);
  const style = getComputedStyle(root);
  for (const [box, named] of drawn) {
    dress(named, box, style);
    Plotly.redraw(box);
  }
};

const draw = async (section, figures) => {
  const place = $(".charts", section);
  const style = getComputedStyle(root);
  const boxes = [];
  const coarse = matchMedia("(pointer: coarse)").matches;
  for (const { layout } of figures) {
    const box = document.createElement("div");
    box.className = "chart";
    if (layout.height) box.style.height = `${layout.height}px`;
    place.append(box);
    boxes.push(box);
  }
  for (const [k, named] of figures.entries()) {
    const live = structuredClone(named);
    dress(named, live, style);
    live.layout.font.family = getComputedStyle(document.body).fontFamily;
    live.layout.dragmode = coarse ? false : "zoom";
    await Plotly.newPlot(boxes[k], live.data, live.layout, { responsive: true, displayModeBar: false, showTips: false });
    drawn.push([boxes[k], named]);
  }
  // the legend of the first panel speaks for all, which have the same traces
  if (section.id === "slices" && boxes.length > 1)
    boxes[0].on("plotly_restyle", ([change, traces]) => {
      if ("visible" in change) for (const box of boxes.slice(1)) Plotly.restyle(box, change, traces);
    });
};

const tabulate = ({ default: DataTable }, { columns, best }) => {
  const text = (value) => String(value).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const brief = (value) => String(Number.isInteger(value) ? value : Number(value.toPrecision(6)));
  const show = (value, use) => {
    if (value === null) return ""; // everything else is escaped before DataTables reads it as HTML
    if (use === "filter") return text(value);
    return use === "display" ? text(typeof value === "number" ? brief(value) : value) : value;
  };
  const filtered = ["fidelity", "status"];
  const exportOptions = { orthogonal: "export", stripHtml: false, decodeEntities: false };
  const heads = columns.map(({ title }) => Object.assign(document.createElement("th"), { scope: "col", textContent: title }));
  $("#records thead tr").append(...heads);
  const rows = columns[0].cells.map((_, k) => columns.map(({ cells }) => cells[k]));
  new DataTable($("#records table"), {
    data: rows,
    columns: columns.map(({ title, kind }) => ({
      type: kind,
      className: kind === "num" ? "dt-right" : "dt-left",
      searchable: kind === "string",
      render: show,
      columnControl: filtered.includes(title) ? [["searchList"]] : [],
      createdCell: (cell, value) => value !== null && (cell.title = String(value)),
    })),
    createdRow: (row, values) => row.classList.toggle("best", values[0] === best),
    order: [[0, "asc"]],
    autoWidth: false,
    deferRender: true,
    fixedColumns: { start: 1 },
    scroller: true,
    scrollX: true,
    scrollY: Math.min(600, 36 * (rows.length + 2)),
    layout: {
      topStart: { buttons: ["csv", "copy"].map((extend) => ({ extend, exportOptions })) },
      topEnd: "search",
      bottomStart: "info",
      bottomEnd: null,
    },
  });
};

const trouble = (text) => {
  $("#trouble").textContent = text;
  $("#trouble").hidden = false;
};

const start = async () => {
  if (typeof DecompressionStream === "undefined")
    return trouble("This browser cannot unpack the charts and the table: they need one of 2023 or later.");
  setTheme();
  system.addEventListener("change", setTheme);
  $("#theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("mfbo-theme", chosen);
    } catch {
      // it holds until the page is closed
    }
    setTheme();
  });
  document.head.prepend(Object.assign(document.createElement("style"), { textContent: await inflate("#sheet") }));
  const library = URL.createObjectURL(new Blob([await inflate("#library")], { type: "text/javascript" }));
  tabulate(await import(library), JSON.parse(await inflate("#data")));
  const script = document.createElement("script");
  script.nonce = $("script[nonce]").nonce;
  script.textContent = await inflate("#plotly");
  document.head.append(script);
  for (const [id, figures] of Object.entries(JSON.parse(await inflate("#figures")))) await draw($(`#${id}`), figures);
};

start()
  .catch((error) => trouble(`The page could not be drawn: ${error.message}`))
  .finally(() => $("main").setAttribute("aria-busy", "false"));
