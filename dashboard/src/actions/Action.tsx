import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { ApiProblem, apiUrl, newKey, send } from "../data/client";
import { type Notice, notify } from "../data/notices";
import { curlCommand } from "../model/command";
import { CopyButton } from "../parts/Copy";
import { Dialog } from "../parts/Dialog";

/** A request that an action sends. */
export interface Request {
  readonly method: "POST" | "PUT" | "PATCH" | "DELETE";
  readonly parts: readonly string[];
  readonly query?: Readonly<Record<string, string>>;
  /** JSON text, or null for no body. */
  readonly body: string | null;
}

interface Props {
  /** The question. */
  readonly title: string;
  /** The primary button, which repeats the verb. */
  readonly verb: string;
  /** The other button, which keeps the state. */
  readonly keep?: string;
  readonly isDangerous?: boolean;
  /** Why the action cannot be sent as it is, or null. */
  readonly refusal?: string | null;
  readonly request: Request;
  /** The same as a command of assay, or null where no command fits. */
  readonly command: string | null;
  readonly done: (answer: unknown) => { readonly text: string; readonly link?: Notice["link"] } | null;
  readonly children: ComponentChildren;
  readonly wide?: boolean;
}

const shown = signal<ComponentChildren>(null);

/** Opens the dialog of an action. */
export const ask = (dialog: ComponentChildren): void => {
  shown.value = dialog;
};
export const closeAction = (): void => {
  shown.value = null;
};

/** The place of the dialog that is open. */
export const ActionHost = () => <>{shown.value}</>;

/** Returns a key that stays the same until the content of the fields changes: a repeated click has one effect. */
function useKeyOf(content: string): string {
  const known = useRef({ content, key: newKey() });
  if (known.current.content !== content) known.current = { content, key: newKey() };
  return known.current.key;
}

/** A question with its consequences; it stays open with all its fields until the engine has done what it asks. */
export function Action(props: Props) {
  const { request } = props;
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiProblem | null>(null);
  const sending = useRef(false);
  const idempotencyKey = useKeyOf(JSON.stringify(request));
  const submit = async (): Promise<void> => {
    if (sending.current || (props.refusal ?? null) !== null) return;
    sending.current = true;
    setBusy(true);
    setProblem(null);
    try {
      const { method, parts, query = {}, body } = request;
      const answer = await send(method, parts, { query, idempotencyKey, ...(body === null ? {} : { body }) });
      const said = props.done(answer.value);
      if (said) notify(said.text, said.link ? { link: said.link } : {});
      closeAction();
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      setProblem(error);
    } finally {
      sending.current = false;
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} busy={busy} onClose={closeAction} wide={props.wide ?? false}>
      <form
        class="dialog-body"
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {props.children}
        {problem && (
          <div class="problem" role="alert">
            <p class="problem-sentence">{problem.message}</p>
            <code class="muted">{problem.code}</code>
          </div>
        )}
        <div class="dialog-end">
          <button type="button" class="button" disabled={busy} onClick={closeAction}>
            {props.keep ?? "Cancel"}
          </button>
          <button
            type="submit"
            class={`button ${props.isDangerous ? "danger" : "primary"}`}
            disabled={busy || (props.refusal ?? null) !== null}
            title={props.refusal ?? undefined}
            aria-busy={busy}
          >
            {props.verb}
          </button>
        </div>
        <AsCommand request={request} command={props.command} />
      </form>
    </Dialog>
  );
}

function AsCommand({ request, command }: { readonly request: Request; readonly command: string | null }) {
  const curl = curlCommand(request.method, apiUrl(request.parts, request.query ?? {}), request.body);
  const line = (text: string, name: string) => (
    <div class="command">
      <code>{text}</code>
      <CopyButton text={text} label={`Copy ${name}`} iconOnly />
    </div>
  );
  return (
    <details class="as-command">
      <summary>As command</summary>
      {command !== null && line(command, "command")}
      {line(curl, "curl")}
    </details>
  );
}
