/** Light or dark: as the system says, or as the reader chose. */

const KEY = "numalens-theme";
export type Theme = "system" | "light" | "dark";

function stored(): Theme {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "light" || theme === "dark" ? theme : "system";
  } catch {
    return "system";
  }
}

let chosen = $state<Theme>("system");
let changes = $state(0);

function apply(): void {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  changes += 1;
}

/** Takes the reader's choice over. Called once. */
export function start(): void {
  chosen = stored();
  apply();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (changes += 1));
}

/** Whether it is dark now. */
export function isDark(): boolean {
  void changes;
  return chosen === "dark" || (chosen === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
}

/** The other one. */
export function toggle(): void {
  chosen = isDark() ? "light" : "dark";
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // Then it lasts as long as the page.
  }
  apply();
}

/** Colours of the style sheet as drawings need them: resolved. Whoever asks is told when they change. */
export function inks<Name extends string>(element: HTMLElement, names: readonly Name[]): Record<Name, string> {
  void changes;
  const before = element.style.color;
  const found = {} as Record<Name, string>;
  for (const name of names) {
    element.style.color = `var(--${name})`;
    found[name] = getComputedStyle(element).color;
  }
  element.style.color = before;
  return found;
}
