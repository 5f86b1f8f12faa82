// An action as a command line: what one would type into a shell to do the same. Keys are never part of it.

/** Returns a word as a shell reads it. */
export const quoted = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

/** Returns a command of `assay`; options without a value are left out. */
export function assayCommand(
  words: readonly string[],
  options: Readonly<Record<string, string>>,
  namespace: string,
): string {
  const named = { ...options, ...(namespace === "main" ? {} : { namespace }) };
  const given = Object.entries(named).filter(([, value]) => value !== "");
  return ["assay", ...words.map(quoted), ...given.map(([name, value]) => `--${name} ${quoted(value)}`)].join(" ");
}

/** Returns the same request for curl. */
export function curlCommand(method: string, url: string, body: string | null): string {
  const lines = [`curl -X ${method} ${quoted(url)}`];
  if (body !== null) lines.push(`  -H 'Content-Type: application/json'`, `  -d ${quoted(body)}`);
  return lines.join(" \\\n");
}
