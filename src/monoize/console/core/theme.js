// Before the first paint: the theme that was chosen here, if any; else the system's.
(() => {
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
})();
