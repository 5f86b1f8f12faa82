import { useRef, useState } from "preact/hooks";
import { ApiProblem, newKey, send } from "../data/client";
import { notify } from "../data/notices";
import type { RunRecord } from "../data/records";
import { userName } from "../data/session";
import { JsonEditor, jsonProblem } from "../json/Editor";
import { isOpen } from "../model/run";
import { Dialog } from "../parts/Dialog";
import { ask, closeAction } from "./Action";
import { Confirm, TextField, jsonOrNull, objectText, textOrNull } from "./fields";
import { counted, runQuery } from "./target";

export type BulkVerb = "Retry" | "Signal" | "Cancel" | "Terminate";

const CONFIRM_FROM = 10;
const AT_ONCE = 4;
const EFFECTS: Readonly<Record<BulkVerb, string>> = {
  Retry: "A new run of each takes over its history and goes on from its last failure.",
  Signal: "The signal is stored and reaches each run in order.",
  Cancel: "Asks the code of each run to stop; it may clean up first.",
  Terminate: "Ends each run at once; its code is not told and cleans up nothing. This cannot be undone.",
};

/** Whether a verb can act on a run; the others are skipped. */
const fits = (verb: BulkVerb, run: RunRecord): boolean => (verb === "Retry" ? run.retryable : isOpen(run));

interface Fields {
  readonly reason: string;
  readonly signal: string;
  readonly payload: string;
}

function requestOf(verb: BulkVerb, fields: Fields): { readonly path: readonly string[]; readonly body: string } {
  const reason = textOrNull(fields.reason);
  if (verb === "Signal") {
    return { path: ["signal", fields.signal.trim()], body: objectText({ payload: jsonOrNull(fields.payload) }) };
  }
  const by = JSON.stringify(userName() ?? "dashboard");
  return { path: [verb.toLowerCase()], body: objectText({ reason, requested_by: verb === "Retry" ? by : null }) };
}

interface Outcome {
  readonly done: number;
  readonly refused: readonly string[];
}

/** Acts on runs, a few at the same time; a refusal of one does not stop the others. */
async function actOn(
  verb: BulkVerb,
  runs: readonly RunRecord[],
  fields: Fields,
  onProgress: (done: number) => void,
): Promise<Outcome> {
  const { path, body } = requestOf(verb, fields);
  const waiting = [...runs];
  const refused: string[] = [];
  let done = 0;
  const work = async (): Promise<void> => {
    for (let run = waiting.shift(); run !== undefined; run = waiting.shift()) {
      try {
        const parts = ["workflows", run.workflow_id, ...path];
        await send("POST", parts, { query: runQuery(run), body, idempotencyKey: newKey() });
        done += 1;
      } catch (error) {
        if (!(error instanceof ApiProblem)) throw error;
        refused.push(`${run.workflow_id}: ${error.message}`);
      }
      onProgress(done + refused.length);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { done, refused };
}

interface Props {
  readonly verb: BulkVerb;
  readonly runs: readonly RunRecord[];
  readonly onDone: () => void;
}

/** Opens the question about several runs. */
export const askAbout = (props: Props): void => ask(<BulkDialog {...props} />);

function BulkDialog({ verb, runs, onDone }: Props) {
  const able = runs.filter((run) => fits(verb, run));
  const [fields, setFields] = useState<Fields>({ reason: "", signal: "", payload: "" });
  const [typed, setTyped] = useState("");
  const [progress, setProgress] = useState<number | null>(null);
  const [refused, setRefused] = useState<readonly string[]>([]);
  const sending = useRef(false);
  const set = (name: keyof Fields) => (value: string) => setFields((old) => ({ ...old, [name]: value }));
  const needsWord = able.length > CONFIRM_FROM;
  const isReady =
    able.length > 0 &&
    (!needsWord || typed === String(able.length)) &&
    (verb !== "Signal" || (fields.signal.trim() !== "" && jsonProblem(fields.payload) === null)) &&
    (verb !== "Retry" || fields.reason.trim() !== "");
  const submit = async (): Promise<void> => {
    if (sending.current || !isReady) return;
    sending.current = true;
    setProgress(0);
    const outcome = await actOn(verb, able, fields, setProgress);
    sending.current = false;
    setProgress(null);
    onDone();
    notify(
      `${verb}: ${counted(outcome.done, "run")} done${outcome.refused.length > 0 ? `, ${outcome.refused.length} refused` : ""}.`,
    );
    if (outcome.refused.length === 0) closeAction();
    else setRefused(outcome.refused);
  };
  return (
    <Dialog title={`${verb} ${counted(able.length, "run")}?`} busy={progress !== null} onClose={closeAction}>
      <form
        class="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <p>{EFFECTS[verb]}</p>
        {able.length < runs.length && (
          <p class="muted">{counted(runs.length - able.length, "selected run")} cannot take it and will be skipped.</p>
        )}
        {verb === "Signal" ? (
          <>
            <TextField label="Signal name" value={fields.signal} onChange={set("signal")} isRequired />
            <JsonEditor label="Payload (JSON)" value={fields.payload} onChange={set("payload")} />
          </>
        ) : (
          <TextField label="Reason" value={fields.reason} onChange={set("reason")} isRequired={verb === "Retry"} />
        )}
        {needsWord && <Confirm word={String(able.length)} value={typed} onChange={setTyped} />}
        {progress !== null && <progress max={able.length} value={progress} aria-label="Progress" />}
        {refused.length > 0 && (
          <div class="problem" role="alert">
            {refused.slice(0, 20).map((line) => (
              <p key={line}>{line}</p>
            ))}
          </div>
        )}
        <div class="dialog-end">
          <button type="button" class="button" disabled={progress !== null} onClick={closeAction}>
            Close
          </button>
          <button
            type="submit"
            class="button danger"
            disabled={!isReady || progress !== null}
            aria-busy={progress !== null}
          >
            {verb} {counted(able.length, "run")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
