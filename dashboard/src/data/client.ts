// Calls of the API: the address, the session's token, errors as sentences, and answers read without loss of digits.
import { config } from "../config";
import { parseAnswer } from "../json/parse";

export type Parameters = Readonly<Record<string, string | number | boolean | null | undefined>>;

export interface Answer<T> {
  readonly value: T;
  readonly headers: Headers;
}

export interface Call {
  readonly query?: Parameters;
  /** JSON text, sent as it is. */
  readonly body?: string;
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal;
}

/** An error of the API, or of the way to it (status 0). */
export class ApiProblem extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
    readonly field: string | null,
    readonly url: string,
    readonly requestId: string | null,
    readonly retryAfter: number | null,
    readonly at: number = Date.now(),
  ) {
    super(message);
  }

  /** Whether the same request may succeed in a moment. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 502;
  }

  get details(): string {
    return [
      this.message,
      this.code,
      `${this.status} ${this.url}`,
      this.requestId ?? "",
      new Date(this.at).toISOString(),
    ]
      .filter(Boolean)
      .join("\n");
  }
}

/** What the client takes from the session; set by `session.ts`. */
export const credentials: { csrf: string | null; onUnauthorized: () => void } = {
  csrf: null,
  onUnauthorized: () => undefined,
};

/** Returns an address of the API; each part of the path is encoded by itself. */
export function apiUrl(parts: readonly string[], query: Parameters = {}): string {
  const url = new URL(parts.map(encodeURIComponent).join("/"), config.api);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, String(value));
  }
  return url.href;
}

async function call<T>(method: string, parts: readonly string[], given: Call): Promise<Answer<T>> {
  const url = apiUrl(parts, given.query);
  const headers = new Headers();
  if (method !== "GET") {
    headers.set("content-type", "application/json");
    if (credentials.csrf !== null) headers.set("x-wf-csrf", credentials.csrf);
    if (given.idempotencyKey !== undefined) headers.set("idempotency-key", given.idempotencyKey);
  }
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(url, { method, headers, body: given.body ?? null, signal: given.signal ?? null });
    text = await answer.text();
  } catch (error) {
    if (given.signal?.aborted) throw error;
    throw new ApiProblem("The engine cannot be reached.", 0, "unreachable", null, url, null, null);
  }
  if (!answer.ok) throw problem(answer, text, url);
  return { value: (text === "" ? null : parseAnswer(text)) as T, headers: answer.headers };
}

function problem(answer: Response, text: string, url: string): ApiProblem {
  let body: Record<string, unknown> = {};
  try {
    body = JSON.parse(text) as Record<string, unknown>;
  } catch {
    // A proxy in between has answered with a page of its own.
  }
  const after = Number(answer.headers.get("retry-after"));
  if (answer.status === 401) credentials.onUnauthorized();
  return new ApiProblem(
    typeof body["error"] === "string" ? body["error"] : `The answer was ${answer.status} ${answer.statusText}`.trim(),
    answer.status,
    typeof body["code"] === "string" ? body["code"] : "unknown",
    typeof body["field"] === "string" ? body["field"] : null,
    url,
    answer.headers.get("x-request-id"),
    Number.isFinite(after) && after > 0 ? after : null,
  );
}

export const get = <T>(parts: readonly string[], query: Parameters = {}, signal?: AbortSignal): Promise<Answer<T>> =>
  call<T>("GET", parts, signal ? { query, signal } : { query });

export const send = <T>(
  method: "POST" | "PUT" | "PATCH" | "DELETE",
  parts: readonly string[],
  given: Call = {},
): Promise<Answer<T>> => call<T>(method, parts, given);

/** Returns a key that makes a repeated request have one effect; works on pages without a secure context, too. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
