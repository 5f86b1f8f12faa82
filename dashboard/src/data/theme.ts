// The theme and the other choices of appearance, kept in the browser.
import { signal } from "@preact/signals";
import { read, write } from "./session";

export type Theme = "light" | "dark" | "system";

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const saved = (): Theme => {
  const found = read("assay-theme");
  return found === "light" || found === "dark" ? found : "system";
};

export const theme = signal<Theme>(saved());
export const shownTheme = signal(root.dataset["theme"] === "dark" ? "dark" : "light");

function apply(): void {
  shownTheme.value = theme.value === "system" ? (system.matches ? "dark" : "light") : theme.value;
  root.dataset["theme"] = shownTheme.value;
  fitSkin();
}

/** A sheet of the deployment may turn light and dark round: derived colours then follow the background it chose. */
function fitSkin(): void {
  delete root.dataset["derived"];
  const parts =
    getComputedStyle(root.querySelector("body") ?? root)
      .backgroundColor.match(/[\d.]+/g)
      ?.map(Number) ?? [];
  const [red = 255, green = 255, blue = 255] = parts;
  const isDark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 110;
  if (isDark !== (shownTheme.peek() === "dark")) root.dataset["derived"] = isDark ? "dark" : "light";
}

export function setTheme(next: Theme): void {
  theme.value = next;
  write("assay-theme", next);
  apply();
}

export const toggleTheme = (): void => setTheme(shownTheme.value === "dark" ? "light" : "dark");

export function startTheme(): void {
  apply();
  system.addEventListener("change", apply);
  addEventListener("load", fitSkin);
  addEventListener("storage", (event) => {
    if (event.key !== "assay-theme") return;
    theme.value = saved();
    apply();
  });
}

export function setSetting(name: string, value: string): void {
  write(name, value);
  applySettings();
}

/** Puts density and motion on the root element, where the style sheet reads them. */
export function applySettings(): void {
  root.classList.toggle("compact", read("assay-density") === "compact");
  root.classList.toggle("still", read("assay-motion") === "reduced");
}
