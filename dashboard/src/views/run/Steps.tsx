import { useEffect, useRef, useState } from "preact/hooks";
import { ApiProblem, newKey, send } from "../../data/client";
import { hidden, now } from "../../data/clock";
import { notify } from "../../data/notices";
import type { QueryRecord, RunRecord } from "../../data/records";
import { readQuery } from "../../data/runs";
import { actRefusal, rememberUser, session, userName } from "../../data/session";
import { isOpen } from "../../model/run";
import {
  type Pipeline,
  STEP_GLYPHS,
  type Step,
  connector,
  focusOf,
  isShown,
  pipelineOf,
  settled,
} from "../../model/steps";
import { span } from "../../model/times";
import { Ring } from "../../parts/Status";
import { namespace, route, setQuery } from "../../router";
import { useScrollLock } from "./scrollLock";
import type { TabProps } from "./tabs";

const POLL_MS = 1_000;
export const PIPELINE = "pipeline_state";

/** Reads the state of the steps at once and every second, while the run is open; an unchanged answer changes nothing. */
function usePipeline(run: RunRecord): { readonly pipeline: Pipeline | null; readonly read: () => void } {
  const [known, setKnown] = useState<QueryRecord | null>(null);
  const ns = namespace.value;
  const read = async (): Promise<void> => {
    try {
      const found = await readQuery(ns, run.workflow_id, run.run_id, PIPELINE);
      setKnown((old) => (old?.event_seq === found.event_seq ? old : found));
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
    }
  };
  const open = isOpen(run);
  useEffect(() => {
    void read();
    if (!open) return;
    let since = Date.now();
    const timer = setInterval(() => {
      if (!hidden.peek()) since = Date.now();
      if (Date.now() - since < 60_000) void read();
    }, POLL_MS);
    return () => clearInterval(timer);
  }, [ns, run.run_id, open]);
  const pipeline = known === null ? null : pipelineOf(known.value.value);
  return { pipeline: pipeline && settled(pipeline, run.status), read: () => void read() };
}

/** The steps of a run as circles, with their actions and their log. */
export function Steps({ run }: TabProps) {
  const { pipeline, read } = usePipeline(run);
  if (pipeline === null) return <div class="steps" aria-busy="true" />;
  const pinned = Number(route.value.query["step"]) || null;
  const focus = focusOf(pipeline);
  const at = focus ?? pipeline.steps.length;
  const running = pipeline.steps.find((step) => step.status === "running" && step.expiresAt !== null);
  return (
    <div class="steps">
      <p class="steps-head muted">
        {pipeline.status !== "" && <>{pipeline.status} · </>}step {at} of {pipeline.steps.length}
        {running?.expiresAt != null && <Expiry at={running.expiresAt} />}
      </p>
      <ol class="pipeline" aria-label="Steps">
        {pipeline.steps.map((step, index) => (
          <StepItem
            key={index}
            run={run}
            step={step}
            number={index + 1}
            next={pipeline.steps[index + 1]}
            isFocus={focus === index + 1}
            isPinned={pinned === index + 1}
            onDone={read}
          />
        ))}
      </ol>
      {session.value?.user == null && pipeline.steps.some((step) => step.actions.length > 0) && <ActingAs />}
      <StepLog pipeline={pipeline} pinned={pinned} isLive={isOpen(run)} />
    </div>
  );
}

function Expiry({ at }: { readonly at: number }) {
  const left = at - now.value;
  const urgent = left < 60;
  return <span class={urgent ? "urgent" : ""}>{left <= 0 ? " · expired" : ` · expires in ${span(left, true)}`}</span>;
}

/** Asks once for the name that step actions carry, where nobody is signed in. */
function ActingAs() {
  const [name, setName] = useState(userName() ?? "");
  return (
    <label class="acting muted">
      Acting as{" "}
      <input
        type="text"
        value={name}
        placeholder="your name"
        onInput={(event) => {
          setName(event.currentTarget.value);
          rememberUser(event.currentTarget.value.trim());
        }}
      />
    </label>
  );
}

interface ItemProps {
  readonly run: RunRecord;
  readonly step: Step;
  readonly number: number;
  readonly next: Step | undefined;
  readonly isFocus: boolean;
  readonly isPinned: boolean;
  readonly onDone: () => void;
}

function StepItem({ run, step, number, next, isFocus, isPinned, onDone }: ItemProps) {
  return (
    <li
      class={`pipeline-step ${step.status}${isPinned ? " selected" : ""}${isFocus ? " focus" : ""}`}
      data-testid="step"
      data-status={step.status}
      data-step-idx={number}
      aria-current={isFocus ? "step" : undefined}
    >
      <button
        type="button"
        class="step-circle"
        aria-label={`Step ${number} ${step.name}`}
        aria-pressed={isPinned}
        onClick={() => setQuery({ step: isPinned ? "" : String(number) }, "replace")}
      >
        {step.status === "running" ? <Ring name="step-spinner" /> : STEP_GLYPHS[step.status]}
      </button>
      <span class="step-name">{step.name}</span>
      <span class="step-status">{step.text}</span>
      {isOpen(run) && step.actions.length > 0 && <StepActions run={run} step={step} onDone={onDone} />}
      {next && <span class={`pipeline-connector ${connector(step.status, next.status)}`} aria-hidden="true" />}
    </li>
  );
}

function StepActions({ run, step, onDone }: Pick<ItemProps, "run" | "step" | "onDone">) {
  const [busy, setBusy] = useState<string | null>(null);
  const post = async (action: string): Promise<void> => {
    setBusy(action);
    const user = userName() || null;
    try {
      const body = JSON.stringify({ payload: { step: step.name, action, user } });
      await send("POST", ["workflows", run.workflow_id, "signal", "step_action"], {
        query: { namespace: run.namespace, run_id: run.run_id },
        body,
        idempotencyKey: newKey(),
      });
      notify(`Sent ${action} for ${step.name}${user === null ? "" : ` as ${user}`}.`);
      onDone();
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      notify(error.message, { tone: "bad" });
    } finally {
      setBusy(null);
    }
  };
  return (
    <span class="step-actions">
      {step.actions.map((action) => (
        <button
          key={action}
          type="button"
          class="button pipeline-step-action"
          data-action={action}
          disabled={busy !== null || actRefusal.value !== null}
          title={actRefusal.value ?? undefined}
          aria-busy={busy === action}
          onClick={() => void post(action)}
        >
          {action}
        </button>
      ))}
    </span>
  );
}

interface LogProps {
  readonly pipeline: Pipeline;
  readonly pinned: number | null;
  readonly isLive: boolean;
}

function StepLog({ pipeline, pinned, isLive }: LogProps) {
  const box = useRef<HTMLDivElement>(null);
  const { isLocked, unseen, toggle, release } = useScrollLock(box, pipeline.log.length);
  return (
    <section class="card steps-log">
      <div class="steps-log-head">
        <h3>Step log{pinned !== null && ` — step ${pinned} only`}</h3>
        {pinned !== null && (
          <button type="button" class="button quiet" onClick={() => setQuery({ step: "" }, "replace")}>
            Show all steps
          </button>
        )}
        <span class="spacer" />
        {isLive && <span class="muted">live</span>}
        <button type="button" class="button quiet" aria-pressed={isLocked} onClick={toggle}>
          Scroll lock
        </button>
      </div>
      <div class="log" role="log" aria-label="Step log" tabIndex={0} ref={box}>
        {pipeline.log.map((line, index) => (
          <div
            key={index}
            class={`pipeline-log-line${isShown(line, pinned) ? "" : " hidden"}`}
            {...(line.step === null ? {} : { "data-step-idx": line.step })}
          >
            <span class="log-time digits">{line.time}</span>
            <span>{line.message}</span>
          </div>
        ))}
        {pipeline.log.length === 0 && <p class="muted">No line yet.</p>}
      </div>
      {isLocked && unseen > 0 && (
        <button type="button" class="pill log-pill" onClick={release}>
          {unseen === 1 ? "1 new line" : `${unseen} new lines`}
        </button>
      )}
    </section>
  );
}
