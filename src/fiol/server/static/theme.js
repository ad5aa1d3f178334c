// The switch between automatic, light and dark colors.

const THEMES = ["auto", "light", "dark"];
const NAMES = { auto: "Auto", light: "Light", dark: "Dark" };

/** Connect the switch; `redraw` is called whenever colors change. */
export function themeSwitch(button, redraw) {
  const changed = () => {
    known.clear();
    redraw();
  };
  let theme = document.documentElement.dataset.theme ?? "auto";
  const show = () => {
    button.textContent = NAMES[theme];
    button.setAttribute("aria-label", `Color theme: ${NAMES[theme].toLowerCase()}`);
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("fiol-theme", theme);
    } catch {
      // Storage is blocked: the choice lasts as long as the page.
    }
    show();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  show();
}

const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);
const known = new Map();

/** Return the color of a CSS variable in the present theme, as a canvas takes it. */
export function color(name) {
  if (!known.has(name)) {
    probe.style.color = `var(${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  return known.get(name);
}
