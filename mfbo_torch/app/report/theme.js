// Before anything is drawn: the theme that was chosen last, or else that of the system.
{
  const root = document.documentElement;
  let chosen = null;
  try {
    chosen = localStorage.getItem("mfbo-theme");
  } catch {
    // a browser that keeps nothing for files
  }
  if (chosen !== null) root.dataset.chosen = chosen;
  root.dataset.theme = chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}
