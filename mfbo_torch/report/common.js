// What the charts and the table share: elements, numbers, text, the theme, axes and buttons.

const root = document.documentElement;
const $ = (selector, within = document) => within.querySelector(selector);

/** An element with attributes and children; strings become text, never markup. */
const el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") for (const [key, what] of Object.entries(value)) node.style.setProperty(key, what);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
};

const inflate = (id) => {
  const bytes = Uint8Array.from(atob($(id).textContent), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};

/** Text for plotly, which reads a few tags and entities in what it is given. */
const plain = (text) => String(text).replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
const short = (text, most = 24) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const brief = (value) => {
  if (Number.isInteger(value)) return String(value);
  const rounded = Number(value.toPrecision(6));
  return Math.abs(rounded) < 1e-4 ? rounded.toExponential() : String(rounded);
};
/** A value of a parameter: of a choice its label, nothing where the parameter is not there. */
const valued = (parameter, value) => (value === null ? "" : parameter.labels ? parameter.labels[value] : brief(value));
const ticked = ({ labels }) => ({ tickvals: labels.map((_, k) => k), ticktext: labels.map((label) => plain(short(label, 12))) });
const grouped = (count) => count.toLocaleString("en");

const RAMP = { light: [[42, 147, 163], [29, 63, 145]], dark: [[111, 214, 219], [106, 155, 245]] };
const TARGET = { light: "#c2410c", dark: "#ff8a4c" };
const system = matchMedia("(prefers-color-scheme: dark)");
const charts = [];
let chosen = root.dataset.chosen ?? null;
let colors = {};

/** From the cheapest fidelity to the one below the target a ramp of blues, the target orange. */
const fidelityColor = (m, count, theme) => {
  if (m === count - 1) return TARGET[theme];
  const [from, to] = RAMP[theme];
  const t = count > 2 ? m / (count - 2) : 0.5;
  return `rgb(${from.map((start, i) => Math.round(start + t * (to[i] - start))).join(",")})`;
};

const setTheme = (count) => {
  const theme = chosen ?? (system.matches ? "dark" : "light");
  root.dataset.theme = theme;
  const style = getComputedStyle(root);
  const variable = (name) => style.getPropertyValue(`--${name}`).trim();
  const fidelity = Array.from({ length: count }, (_, m) => fidelityColor(m, count, theme));
  fidelity.forEach((color, m) => root.style.setProperty(`--f${m}`, color));
  colors = { fidelity, theme };
  for (const name of ["page", "raised", "ink", "quiet", "line", "faint", "edge"]) colors[name] = variable(name);
  const other = theme === "dark" ? "Light" : "Dark";
  $("#theme").textContent = other;
  $("#theme").setAttribute("aria-label", `${other} theme`);
  for (const draw of charts) draw();
};

const coarse = matchMedia("(pointer: coarse)").matches;
const config = { responsive: true, displayModeBar: false, showTips: false };

const layout = (extra) => ({
  paper_bgcolor: colors.page,
  plot_bgcolor: colors.page,
  font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colors.ink },
  margin: { l: 56, r: 12, t: 12, b: 48 },
  showlegend: false,
  hovermode: "closest",
  hoverlabel: { bgcolor: colors.raised, bordercolor: colors.edge, font: { color: colors.ink }, align: "left" },
  dragmode: coarse ? false : "zoom",
  uirevision: "kept",
  ...extra,
});

const axis = (title, extra) => ({
  title: { text: plain(title), standoff: 8, font: { color: colors.quiet, size: 13 } },
  gridcolor: colors.line,
  linecolor: colors.edge,
  tickcolor: colors.edge,
  zeroline: false,
  automargin: true,
  fixedrange: coarse,
  ...extra,
});

/** Draw now and at every change of theme. */
const chart = (box, figure) => {
  const draw = () => {
    const { data, ...rest } = figure();
    return Plotly.react(box, data, layout(rest), config);
  };
  charts.push(draw);
  draw();
  return draw;
};

/** Buttons that show and hide fidelities, where there are several. */
const keys = (box, fidelities, among, hidden, changed) => {
  if (among.length < 2) return;
  for (const m of among) {
    const { name, cost } = fidelities[m];
    const dot = el("span", { class: "dot", style: { "--of": `var(--f${m})` } });
    const button = el("button", { type: "button", "aria-pressed": "true" }, dot, name);
    if (cost !== null) button.append(el("small", {}, `cost ${brief(cost)}`));
    button.addEventListener("click", () => {
      if (!hidden.delete(m)) hidden.add(m);
      button.setAttribute("aria-pressed", String(!hidden.has(m)));
      changed();
    });
    box.append(button);
  }
};

/** Exponents of ten for a logarithmic axis: both ends and some whole numbers between them. */
const decades = ({ lower, upper }) => {
  const [low, high] = [Math.log10(lower), Math.log10(upper)];
  const step = Math.max(1, Math.ceil((high - low) / 6));
  const between = [];
  for (let k = Math.ceil(low + 0.25); k < high - 0.2; k += step) between.push(k);
  return [low, ...between, high];
};

const select = (box, choices, changed) => {
  for (const [value, name] of choices) box.append(el("option", { value }, name));
  box.addEventListener("change", () => changed(box.value));
};

/** At most about `most` of some ids in order: the lowest and the highest value of each stretch. */
const thinned = (ids, value, most = 1500) => {
  if (ids.length <= most) return ids;
  const kept = [];
  const stretches = Math.floor(most / 2);
  for (let k = 0; k < stretches; k++) {
    const part = ids.slice(Math.floor((k * ids.length) / stretches), Math.floor(((k + 1) * ids.length) / stretches));
    let [low, high] = [part[0], part[0]];
    for (const id of part) {
      if (value[id] < value[low]) low = id;
      if (value[id] > value[high]) high = id;
    }
    kept.push(...new Set(low < high ? [low, high] : [high, low]));
  }
  return kept;
};
