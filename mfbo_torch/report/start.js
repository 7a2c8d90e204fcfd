// Unpack the records, show the table, then unpack plotly and draw.

const trouble = (text) => {
  $("#trouble").textContent = text;
  $("#trouble").hidden = false;
};

const start = async () => {
  if (typeof DecompressionStream === "undefined")
    return trouble("This browser cannot unpack the charts and the table: they need one of 2023 or later.");
  const run = JSON.parse(await inflate("#data"));
  const update = () => setTheme(run.fidelities.length);
  update();
  system.addEventListener("change", update);
  $("#theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("mfbo-theme", chosen);
    } catch {
      // it holds until the page is closed
    }
    update();
  });
  const sections = main(run);
  sections.table();
  const script = el("script", {}, await inflate("#plotly"));
  script.nonce = $("script[nonce]").nonce;
  document.head.append(script);
  for (const name of ["progress", "queries", "parallel", "slices"]) sections[name]();
};

start()
  .catch((error) => trouble(`The page could not be drawn: ${error.message}`))
  .finally(() => $("main").setAttribute("aria-busy", "false"));
