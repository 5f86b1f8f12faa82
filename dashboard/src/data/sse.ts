// Reads Server-Sent Events with fetch, which unlike EventSource tells why a stream could not be opened.
import { parseAnswer } from "../json/parse";
import { credentials } from "./client";
import type { StreamFrame } from "./records";

export type Outcome = "ended" | "expired" | "refused" | "unreachable";

export interface Receiver {
  opened(): void;
  frames(frames: readonly StreamFrame[], lastId: string): void;
}

/** Reads a stream until it ends. */
export async function readFrames(url: string, stop: AbortSignal, receiver: Receiver): Promise<Outcome> {
  try {
    const answer = await fetch(url, { signal: stop, headers: { accept: "text/event-stream" } });
    if (answer.status === 410) return "expired";
    if (answer.status === 401) credentials.onUnauthorized();
    if (!answer.ok || answer.body === null) return "refused";
    receiver.opened();
    const decoder = new TextDecoder();
    const source = answer.body.getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await source.read();
      if (done) return "ended";
      const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = blocks.pop() ?? "";
      take(blocks, receiver);
    }
  } catch {
    return "unreachable";
  }
}

function take(blocks: readonly string[], receiver: Receiver): void {
  const frames: StreamFrame[] = [];
  let last = "";
  for (const block of blocks) {
    const fields = new Map(block.split("\n").map((line) => line.split(/: ?(.*)/s, 2) as [string, string]));
    const data = fields.get("data");
    if (data === undefined) continue;
    last = fields.get("id") ?? last;
    frames.push(parseAnswer(data) as StreamFrame);
  }
  if (frames.length > 0) receiver.frames(frames, last);
}
