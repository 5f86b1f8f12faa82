// White-label values and the base URL, read from the page once.

export interface Config {
  readonly name: string;
  readonly pageTitle: string;
  readonly defaultNamespace: string;
  readonly customised: boolean;
  /** The address of the dashboard, with a slash at its end. */
  readonly base: string;
  /** The address of the API, with a slash at its end. */
  readonly api: string;
}

// Assets lie one folder below the base, whatever path a proxy mounts the engine at.
const base = new URL("../", import.meta.url).href;

export const config: Config = { ...fromPage(), base, api: new URL("../api/v1/engine/workflow/", base).href };

function fromPage(): Omit<Config, "base" | "api"> {
  const text = document.querySelector<HTMLMetaElement>('meta[name="assay-config"]')?.content ?? "{}";
  const given = JSON.parse(text) as Record<string, unknown>;
  return {
    name: String(given["name"] ?? "Assay"),
    pageTitle: String(given["page_title"] ?? "Assay Workflow Dashboard"),
    defaultNamespace: String(given["default_namespace"] ?? "main"),
    customised: given["customised"] === true,
  };
}

/** Makes the links that the server wrote absolute, so that they survive a change of the path. */
export function adoptLinks(): void {
  for (const node of document.querySelectorAll<HTMLAnchorElement | HTMLLinkElement>("nav a[href], head link[href]")) {
    node.href = node.href;
  }
  for (const image of document.querySelectorAll<HTMLImageElement>("nav img[src]")) image.src = image.src;
}
