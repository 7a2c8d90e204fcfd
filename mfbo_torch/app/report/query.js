// The panel of one query: why it was made, its parameters, what it printed, and notes on it.

class QueryPanel {
  constructor(place, ask) {
    this.place = place;
    this.ask = ask; // from a number to {why, output, note}; there is none in a file
    this.notes = {};
    $(".save", place).addEventListener("click", () => this.save());
  }

  async show(index, columns, cells) {
    this.index = index;
    const fill = (selector, text) => {
      $(selector, this.place).textContent = text;
    };
    this.place.hidden = false;
    fill("h3", `Query ${index}`);
    const rows = columns.flatMap(({ title }, k) =>
      cells[k] === null || cells[k] === "" ? [] : [element("div", {}, element("dt", { textContent: title }), element("dd", { textContent: String(cells[k]) }))],
    );
    $("dl", this.place).replaceChildren(...rows);
    fill(".why", "…");
    fill(".said", "");
    fill(".output pre", "");
    const [text, save] = [$("textarea", this.place), $(".save", this.place)];
    text.value = ""; // what is written before the answer would be kept under another query
    text.disabled = save.disabled = true;
    const answer = await this.ask(index).catch(() => null);
    if (this.index !== index) return;
    const { why, output, note } = answer ?? { why: "It could not be asked for." };
    fill(".why", why);
    $(".output", this.place).hidden = !output;
    fill(".output pre", output || "");
    text.value = note ?? "";
    text.disabled = save.disabled = !answer;
    this.place.scrollIntoView({ block: "nearest" });
  }

  async save() {
    const text = $("textarea", this.place).value;
    const body = JSON.stringify({ id: this.index, text });
    const answer = await fetch("note", { method: "POST", headers: { "Content-Type": "application/json" }, body }).catch(() => null);
    $(".said", this.place).textContent = answer?.ok ? "Kept." : "It could not be kept.";
  }
}
