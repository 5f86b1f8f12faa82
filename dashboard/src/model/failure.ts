// Failures: the chain of causes, and tracebacks with the user's own frames apart from those of libraries.

export interface FailureInfo {
  readonly kind: string;
  readonly message: string;
  readonly type: string | null;
  readonly stack: string | null;
  readonly source: string | null;
  readonly timeout_type: string | null;
  readonly cause: FailureInfo | null;
}

export interface Frame {
  readonly place: string;
  readonly code: string;
  readonly own: boolean;
}

/** A stretch of a traceback: one own frame, or neighbouring frames of libraries. */
export interface FrameGroup {
  readonly own: boolean;
  readonly frames: readonly Frame[];
}

const LIBRARY =
  /site-packages|dist-packages|[/\\]lib[/\\]python\d|<frozen|[/\\]assay[/\\](?:sdk|engine|worker_protocol|embedded)[/\\]/;
const FRAME = /^\s*File "(.*)", line (\d+)(?:, in (.*))?$/;

/** Returns a failure and its causes, the outermost first. */
export function chain(failure: FailureInfo): readonly FailureInfo[] {
  const found: FailureInfo[] = [];
  for (let at: FailureInfo | null = failure; at !== null && found.length < 50; at = at.cause) found.push(at);
  return found;
}

/** Returns the heading of a failure: its type, or its kind where it has none. */
export const title = (failure: FailureInfo): string => failure.type ?? failure.kind;

export const firstLine = (text: string): string =>
  text
    .split("\n")
    .find((line) => line.trim() !== "")
    ?.trim() ?? "";

/** Returns the frames of a traceback of Python, grouped; a text of another form has none. */
export function frames(stack: string): readonly FrameGroup[] {
  const groups: { own: boolean; frames: Frame[] }[] = [];
  for (const frame of framesOf(stack.split("\n"))) {
    const last = groups.at(-1);
    if (last && !last.own && !frame.own) last.frames.push(frame);
    else groups.push({ own: frame.own, frames: [frame] });
  }
  return groups;
}

function* framesOf(lines: readonly string[]): Generator<Frame> {
  for (const [index, line] of lines.entries()) {
    const match = FRAME.exec(line);
    if (!match) continue;
    const [, file = "", number = "", name] = match;
    const code: string[] = [];
    for (const next of lines.slice(index + 1)) {
      if (FRAME.test(next) || !/^\s{4}/.test(next)) break;
      code.push(next.trim());
    }
    const place = `${file.split(/[/\\]/).slice(-2).join("/")}:${number}${name ? ` ${name}` : ""}`;
    yield { place, code: code.filter((text) => !/^[~^\s]+$/.test(text)).join("\n"), own: !LIBRARY.test(file) };
  }
}
