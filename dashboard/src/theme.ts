// Runs before the first paint: the theme and the width of the sidebar are on the root element from the start.
const root = document.documentElement;
let saved: string | null = null;
let collapsed = false;
try {
  saved = localStorage.getItem("assay-theme");
  collapsed = localStorage.getItem("assay-sidebar-collapsed") === "true";
} catch {
  // Storage is closed to this page: the system's theme it is.
}
const dark = saved === "dark" || (saved !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
root.dataset["theme"] = dark ? "dark" : "light";
root.classList.toggle("collapsed", collapsed);
