// The sections with charts. Plotly redraws each of them when the theme or what is shown changes.

const main = (run) => {
  const { records, fidelities, parameters } = run;
  const count = records.value.length;
  const target = fidelities.length - 1;
  const unit = run.measured ? " (s)" : "";
  const ids = Array.from({ length: count }, (_, id) => id);
  const done = ids.filter((id) => records.status[id] === "done");
  const failed = ids.filter((id) => records.status[id] === "failed");
  const at = (m, from) => from.filter((id) => records.fidelity[id] === m);
  let sum = 0;
  const spent = records.cost.map((cost) => (sum += cost));

  const about = (id) =>
    [
      `query ${id}, ${plain(fidelities[records.fidelity[id]].name)}`,
      records.value[id] === null ? plain(short(records.reason[id] ?? records.status[id], 80)) : `value ${brief(records.value[id])}`,
      ...parameters.flatMap((p, i) => (records.absent?.[i].includes(id) ? [] : [`${plain(short(p.name))} ${plain(valued(p, records.x[i][id]))}`])).slice(0, 12),
      ...(parameters.length > 12 ? ["…"] : []),
    ].join("<br>");

  const progress = () => {
    const section = $("#progress");
    const hidden = new Set();
    const best = { x: [], y: [] };
    for (const id of at(target, done)) {
      const value = records.value[id];
      const last = best.y.at(-1);
      if (last === undefined || (run.maximize ? value > last : value < last)) {
        best.x.push(spent[id]);
        best.y.push(value);
      }
    }
    if (best.x.length) {
      best.x.push(spent.at(-1));
      best.y.push(best.y.at(-1));
    }
    const shown = fidelities.map((_, m) => thinned(at(m, done), records.value));
    const crosses = fidelities.map((_, m) => thinned(at(m, failed), ids, 500));
    const drawn = [...shown, ...crosses].reduce((total, part) => total + part.length, 0);
    const notes = [];
    if (run.optimum !== null) notes.push("Dotted: the optimum.");
    if (failed.length) notes.push("Crosses: queries that failed.");
    if (drawn < done.length + failed.length)
      notes.push(`${grouped(drawn)} of ${grouped(done.length + failed.length)} are drawn: of each stretch the lowest and the highest.`);
    $(".note", section).textContent = notes.join(" ");
    const figure = () => {
      const data = [{ type: "scatter", mode: "lines", ...best, line: { shape: "hv", color: colors.ink, width: 2 }, hoverinfo: "y" }];
      fidelities.forEach((_, m) => {
        const common = { type: "scatter", mode: "markers", visible: !hidden.has(m), hoverinfo: "text" };
        const color = colors.fidelity[m];
        const top = m === target;
        const mark = { color, size: top ? 9 : 6, opacity: top ? 1 : 0.75, line: { color: colors.page, width: top ? 1 : 0.5 } };
        data.push({ ...common, x: shown[m].map((id) => spent[id]), y: shown[m].map((id) => records.value[id]), text: shown[m].map(about), marker: mark });
        if (crosses[m].length)
          data.push({ ...common, x: crosses[m].map((id) => spent[id]), y: crosses[m].map(() => 0), yaxis: "y2", text: crosses[m].map(about), marker: { color, size: 8, symbol: "x-thin", line: { color, width: 1.5 } }, cliponaxis: false });
      });
      const lines = [];
      if (run.optimum !== null) {
        lines.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: run.optimum, y1: run.optimum, line: { color: colors.quiet, width: 1, dash: "dot" } });
      }
      return {
        data,
        shapes: lines,
        xaxis: axis(`capital spent${unit}`, { range: [0, 1.02 * (spent.at(-1) ?? 1)], anchor: failed.length ? "y2" : "y", showgrid: false }),
        yaxis: axis("value", { domain: [failed.length ? 0.07 : 0, 1] }),
        yaxis2: { domain: [0, 0.05], range: [-1, 1], visible: false, fixedrange: true },
      };
    };
    keys($(".keys", section), fidelities, [...fidelities.keys()], hidden, chart($(".chart", section), figure));
  };

  const queries = () => {
    const section = $("#queries");
    const [left, right] = section.querySelectorAll(".chart");
    const names = fidelities.map(({ name }) => plain(name));
    const height = `${5.5 + 2.6 * fidelities.length}rem`;
    left.style.height = right.style.height = height;
    const total = spent.at(-1) ?? 0;
    const costs = fidelities.map((_, m) => at(m, ids).reduce((part, id) => part + records.cost[id], 0));
    if (failed.length) $(".note", section).textContent = "Hatched: failed.";
    const bars = (x, text, extra) => ({ type: "bar", orientation: "h", y: names, x, text, textposition: "outside", cliponaxis: false, hoverinfo: "none", width: 0.62, ...extra });
    const frame = (title, data) => ({
      data,
      barmode: "stack",
      margin: { l: 8, r: 96, t: 8, b: 44 },
      xaxis: axis(title, { rangemode: "tozero", nticks: 5, fixedrange: true }),
      yaxis: axis("", { fixedrange: true, showgrid: false, ticks: "", ticklabelstandoff: 6 }),
    });
    chart(left, () => {
      const totals = fidelities.map((_, m) => at(m, ids).length);
      const broken = fidelities.map((_, m) => at(m, failed).length);
      const whole = totals.map((n, m) => n - broken[m]);
      const marker = { color: colors.fidelity };
      const pattern = { shape: "/", fgcolor: colors.fidelity, bgcolor: colors.page, size: 6, solidity: 0.3 };
      const labels = totals.map(grouped);
      return frame("queries", [
        bars(whole, labels.map((label, m) => (broken[m] ? "" : label)), { marker }),
        bars(broken, labels.map((label, m) => (broken[m] ? label : "")), { marker: { ...marker, pattern, line: { color: colors.fidelity, width: 1 } } }),
      ]);
    });
    chart(right, () => {
      const share = costs.map((cost) => (total ? Math.round((100 * cost) / total) : 0));
      const labels = costs.map((cost, m) => `${brief(cost)} (${share[m] === 0 && cost > 0 ? "<1" : share[m]}%)`);
      return frame(`capital spent${unit}`, [bars(costs, labels.map(plain), { marker: { color: colors.fidelity } })]);
    });
  };

  const parallel = () => {
    const section = $("#parallel");
    const box = $(".chart", section);
    box.style.minWidth = `${5.2 * (parameters.length + 2)}rem`;
    let which = at(target, done).length ? String(target) : "all";
    const figure = () => {
      const all = which === "all";
      const chosenIds = all ? done : at(Number(which), done);
      const values = chosenIds.map((id) => records.value[id]);
      const dimensions = parameters.map((p, i) => {
        const column = chosenIds.map((id) => records.x[i][id]);
        const dimension = { label: plain(short(p.name, 16)), range: [p.lower, p.upper], values: column };
        if (p.labels) return { ...dimension, ...ticked(p) };
        if (!p.log) return { ...dimension, ...(p.integer && p.upper - p.lower <= 10 ? { dtick: 1 } : {}) };
        const ticks = decades(p);
        return { ...dimension, range: [ticks[0], ticks.at(-1)], values: column.map(Math.log10), tickvals: ticks, ticktext: ticks.map((k) => brief(10 ** k)) };
      });
      if (all && fidelities.length > 1)
        dimensions.push({ label: "fidelity", range: [0, target], values: chosenIds.map((id) => records.fidelity[id]), tickvals: fidelities.map((_, m) => m), ticktext: fidelities.map(({ name }) => name.replace("fidelity ", "")) });
      dimensions.push({ label: "value", values });
      // the larger colour lies on top
      const by = all ? chosenIds.map((id) => records.fidelity[id]) : values.map((value) => (run.maximize ? value : -value));
      const steps = all
        ? fidelities.flatMap((_, m) => [[m / fidelities.length, colors.fidelity[m]], [(m + 1) / fidelities.length, colors.fidelity[m]]])
        : [[0, colors.faint], [1, colors.fidelity[Number(which)]]];
      const range = all ? { cmin: -0.5, cmax: target + 0.5 } : {};
      $(".note", section).textContent = chosenIds.length === 0 ? "There is none." : all ? "Coloured by fidelity." : "The better the value, the stronger the colour.";
      return {
        data: [{
          type: "parcoords", dimensions, line: { color: by, colorscale: steps, ...range },
          labelfont: { color: colors.ink, size: 13 }, tickfont: { color: colors.quiet, size: 11 }, rangefont: { color: colors.page, size: 1 },
          unselected: { line: { color: colors.line, opacity: 0.4 } },
        }],
        margin: { l: 60, r: 48, t: 44, b: 20 },
        uirevision: which,
      };
    };
    const draw = chart(box, figure);
    const choices = fidelities.map(({ name }, m) => [String(m), `at ${m === target ? "the " : ""}${name}`]).reverse();
    const menu = $("select", section);
    select(menu, fidelities.length > 1 ? [...choices, ["all", "at all fidelities"]] : choices, (value) => {
      which = value;
      draw();
    });
    menu.value = which;
  };

  const slices = () => {
    const section = $("#slices");
    const note = $(".note", section);
    if (run.slices.missing) {
      note.textContent = run.slices.missing;
      return;
    }
    const { through, panels } = run.slices;
    const where = fidelities[records.fidelity[through]].name;
    const fewer = fidelities.filter((_, m) => !panels[0].levels[m]).map(({ name }) => name);
    note.textContent =
      `Mean and two standard deviations along each parameter, the others as in query ${through}, the best at ` +
      `${where === "target" ? "the target" : where} (ring). Dots: observations within 5% of the line in every other parameter.` +
      (fewer.length ? ` The model says nothing of ${fewer.join(", ")}.` : "");
    const hidden = new Set();
    const extent = [Infinity, -Infinity];
    for (const { levels } of panels)
      for (const level of levels)
        level?.mean.forEach((mean, k) => {
          const spread = 2 * (level.deviation[k] ?? 0);
          extent[0] = Math.min(extent[0], mean - spread);
          extent[1] = Math.max(extent[1], mean + spread);
        });
    const slack = 0.04 * (extent[1] - extent[0] || 1);
    const range = [Math.min(extent[0], records.value[through]) - slack, Math.max(extent[1], records.value[through]) + slack];
    const draws = panels.map((panel, i) => {
      const parameter = parameters[i];
      const box = el("div", { class: "chart" });
      $(".grid", section).append(box);
      return chart(box, () => {
        const data = [];
        panel.levels.forEach((level, m) => {
          if (!level || hidden.has(m)) return;
          const color = colors.fidelity[m];
          const edge = (sign) => level.mean.map((mean, k) => mean + sign * 2 * level.deviation[k]);
          if (parameter.labels) {
            const array = level.deviation.map((deviation) => 2 * deviation);
            const text = level.mean.map((mean, k) => `${plain(fidelities[m].name)}: ${brief(mean)} ± ${brief(Number(array[k].toPrecision(3)))}`);
            data.push({ type: "scatter", mode: "markers", x: panel.x, y: level.mean, error_y: { type: "data", array, color, thickness: 1 }, text, hoverinfo: "text", marker: { color, symbol: "line-ew-open", size: m === target ? 16 : 12 } });
          }
          const line = { type: "scatter", mode: "lines", visible: !parameter.labels, x: panel.x };
          const border = { color: faded(color, 0.5), width: 0.75 };
          data.push({ ...line, y: edge(-1), line: border, hoverinfo: "skip" });
          data.push({ ...line, y: edge(1), line: border, fill: "tonexty", fillcolor: faded(color, colors.theme === "dark" ? 0.24 : 0.16), hoverinfo: "skip" });
          const text = level.mean.map((mean, k) => `${plain(fidelities[m].name)}: ${brief(mean)} ± ${brief(Number((2 * level.deviation[k]).toPrecision(3)))}`);
          data.push({ ...line, y: level.mean, line: { color, width: m === target ? 2.5 : 1.75 }, text, hoverinfo: "x+text" });
          const near = at(m, panel.near);
          data.push({ type: "scatter", mode: "markers", x: near.map((id) => records.x[i][id]), y: near.map((id) => records.value[id]), text: near.map(about), hoverinfo: "text", marker: { color, size: 5, line: { color: colors.page, width: 0.5 } } });
        });
        data.push({ type: "scatter", mode: "markers", x: [records.x[i][through]], y: [records.value[through]], text: [about(through)], hoverinfo: "text", marker: { color: "rgba(0,0,0,0)", size: 11, line: { color: colors.ink, width: 2 } } });
        const ticks = parameter.labels ? { ...ticked(parameter), range: [-0.5, parameter.upper + 0.5] } : parameter.integer && parameter.upper - parameter.lower <= 10 ? { dtick: 1 } : { nticks: 5 };
        const powers = parameter.log ? decades(parameter) : [];
        const values = powers.map((k, n) => (n === 0 ? parameter.lower : n === powers.length - 1 ? parameter.upper : 10 ** k));
        const scale = parameter.log ? { type: "log", tickvals: values, ticktext: values.map(brief), range: [powers[0], powers.at(-1)] } : { range: [parameter.lower, parameter.upper], ...ticks };
        return {
          data,
          margin: { l: 52, r: 10, t: 8, b: 44 },
          xaxis: axis(short(parameter.name, 36), { showgrid: false, ...scale }),
          yaxis: axis("value", { range, nticks: 6 }),
        };
      });
    });
    const modelled = [...fidelities.keys()].filter((m) => panels[0].levels[m]);
    keys($(".keys", section), fidelities, modelled, hidden, () => draws.forEach((draw) => draw()));
  };

  return { progress, queries, parallel, slices, table: () => table(run, spent) };
};

const faded = (color, alpha) => {
  const parts = color.startsWith("#") ? [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16)) : color.match(/\d+/g);
  return `rgba(${[...parts].slice(0, 3).join(",")},${alpha})`;
};
