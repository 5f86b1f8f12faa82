// The pages of the list: the cursor is in the address, its distance from the first row is kept for the tab.
const KEY = "assay-pages";
type Offsets = Record<string, number>;

function offsets(): Offsets {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "{}") as Offsets;
  } catch {
    return {};
  }
}

/** Returns how many rows are before a page, or null where that is unknown, as in a link from elsewhere. */
export const offsetOf = (cursor: string): number | null => (cursor === "" ? 0 : (offsets()[cursor] ?? null));

export function rememberOffset(cursor: string, offset: number): void {
  const known = Object.entries(offsets()).slice(-100);
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ ...Object.fromEntries(known), [cursor]: offset }));
  } catch {
    // Without storage the pager names no first row.
  }
}
