// Runs before the page is drawn, so that it never flashes in the wrong colours.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const saved = () => { try { return localStorage.getItem("jetspark-theme"); } catch { return null; } };
  const apply = () => { document.documentElement.dataset.theme = saved() || (dark.matches ? "dark" : "light"); };
  apply();
  dark.addEventListener("change", apply);
})();
