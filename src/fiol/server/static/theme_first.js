// Applies the chosen theme before the page is painted; a classic script, since modules run later.
try {
  const theme = localStorage.getItem("fiol-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: the system's theme is used.
}
