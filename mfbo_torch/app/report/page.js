// Unpack the page, hand the pictures to plotly and the records to the table, dress both in the theme, and follow a run.

const root = document.documentElement;
const $ = (selector, within = document) => within.querySelector(selector);
const live = root.dataset.live !== undefined;
const inflate = (id) => {
  const bytes = Uint8Array.from(atob($(id).textContent), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
const system = matchMedia("(prefers-color-scheme: dark)");
const drawn = new Map(); // from the id of a section to its boxes, each with the picture as it came
const pressed = new Map(); // from a box to the button that was pressed last
let chosen = root.dataset.chosen ?? null;

/** Put the colours that a picture names into what plotly draws. */
const dress = (named, made, style) => {
  for (const [key, value] of Object.entries(named)) {
    if (typeof value === "string" && value.startsWith("--")) made[key] = style.getPropertyValue(value).trim();
    else if (value && typeof value === "object" && typeof value.at?.(-1) !== "number" && made[key]) dress(value, made[key], style);
  }
};

const setTheme = () => {
  const dark = chosen === null ? system.matches : chosen === "dark";
  root.dataset.theme = dark ? "dark" : "light";
  root.classList.toggle("dark", dark);
  $("#theme").textContent = dark ? "Light" : "Dark";
  $("#theme").setAttribute("aria-label", `${dark ? "Light" : "Dark"} theme`);
  const style = getComputedStyle(root);
  for (const [box, named] of [...drawn.values()].flat()) {
    dress(named, box, style);
    Plotly.redraw(box);
  }
};

const dressed = (named) => {
  const made = structuredClone(named);
  dress(named, made, getComputedStyle(root));
  made.layout.font.family = getComputedStyle(document.body).fontFamily;
  made.layout.dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
  return made;
};

/** Draw the pictures of a section, in the place of those that are there. */
const draw = async (id, figures) => {
  const place = $(`#${id} .charts`);
  const before = drawn.get(id) ?? [];
  if (before.length !== figures.length) {
    for (const [box] of before) Plotly.purge(box);
    place.replaceChildren();
    drawn.set(id, []);
    for (const { layout } of figures) {
      const box = element("div", { className: "chart" });
      if (layout.height) box.style.height = `${layout.height}px`;
      place.append(box);
    }
  }
  const boxes = [...place.children];
  for (const [k, named] of figures.entries()) {
    const { data, layout } = dressed(named);
    if (layout.height) boxes[k].style.height = `${layout.height}px`;
    await Plotly.react(boxes[k], data, layout, { responsive: true, displayModeBar: false, showTips: false });
    if (before.length !== figures.length) boxes[k].on("plotly_buttonclicked", ({ button }) => pressed.set(boxes[k], button));
    const button = pressed.get(boxes[k]); // plotly forgets it when new data come
    if (button) await Plotly[button.method](boxes[k], ...structuredClone(button.args));
    drawn.get(id)[k] = [boxes[k], named];
  }
  // the legend of the first panel speaks for all, which have the same traces
  if (id === "slices" && boxes.length > 1 && before.length !== figures.length)
    boxes[0].on("plotly_restyle", ([change, traces]) => {
      if ("visible" in change) for (const box of boxes.slice(1)) Plotly.restyle(box, change, traces);
    });
};

const trouble = (text) => {
  $("#trouble").textContent = text;
  $("#trouble").hidden = !text;
};

/** Take what is new: words, which the server has escaped, rows and pictures. */
const take = async ({ words = {}, notes = {}, columns, rows, best, figures }, table) => {
  for (const [id, html] of Object.entries(words)) for (const place of document.querySelectorAll(`[data-words="${id}"]`)) place.innerHTML = html;
  for (const [id, text] of Object.entries(notes)) $(`#${id} .note`).textContent = text;
  if (columns) table.take(columns, rows, best);
  for (const [id, some] of Object.entries(figures ?? {})) {
    $(`#${id}`).hidden = !some.length && !$(`#${id} .note`).textContent;
    await draw(id, some);
  }
};

/** Ask for what is new every few seconds, for as long as the page is seen and the run goes on. */
const follow = async (table) => {
  let seen = "0", run = null;
  for (;;) {
    if (!document.hidden) {
      try {
        const answer = await fetch(`state?seen=${seen}`, { cache: "no-store" });
        if (!answer.ok) throw new Error(`the server says ${answer.status}`);
        const state = await answer.json();
        run ??= state.run;
        if (run !== state.run) return location.reload(); // the folder holds another run, or another server reads it
        trouble(state.trouble ?? "");
        await take(state, table);
        seen = state.version;
        $("#state").textContent = state.finished ? "finished" : "following";
      } catch (error) {
        trouble(`No longer following: ${error.message}. Is mfbo serve still running?`);
      }
      $("main").setAttribute("aria-busy", "false");
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
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
  const data = live ? {} : JSON.parse(await inflate("#data"));
  const ask = async (id) =>
    live ? (await fetch(`query?id=${id}`)).json() : { why: data.why[id] ?? `mfbo why ${id} explains it.`, note: data.notes[id] };
  const panel = new QueryPanel($("#query"), ask);
  const table = new RecordTable($("#records"), (index) => panel.show(index, table.columns, table.rows[index]));
  const script = document.createElement("script");
  script.nonce = $("script[nonce]").nonce;
  script.textContent = await inflate("#plotly");
  document.head.append(script);
  if (live) return follow(table);
  const rows = (data.columns[0]?.cells ?? []).map((_, k) => [k, data.columns.map(({ cells }) => cells[k])]);
  await take({ columns: data.columns, rows, best: data.best, figures: JSON.parse(await inflate("#figures")) }, table);
  $("main").setAttribute("aria-busy", "false");
};

start().catch((error) => {
  trouble(`The page could not be drawn: ${error.message}`);
  $("main").setAttribute("aria-busy", "false");
});
