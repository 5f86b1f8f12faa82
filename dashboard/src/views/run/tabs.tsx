// The tabs of a run, in their order: a new one has a file beside this one, and a line here.
import type { ComponentType } from "preact";
import type { RunRecord } from "../../data/records";
import { Attempts } from "./Attempts";
import { Documents } from "./Documents";
import { Events } from "./Events";
import { State } from "./State";
import { Steps } from "./Steps";
import { Summary } from "./Summary";
import { Timeline } from "./Timeline";
import { Tree } from "./Tree";

export interface TabProps {
  readonly run: RunRecord;
  readonly isPanel: boolean;
}
export type TabId = "steps" | "summary" | "timeline" | "events" | "tree" | "state" | "data" | "attempts" | "logs";

/** What is known of a run beside its record. */
export interface Known {
  readonly hasSteps: boolean;
  readonly queries: number;
}
export interface RunTab {
  readonly id: TabId;
  readonly label: string;
  readonly hook?: string;
  readonly count: (run: RunRecord, known: Known) => number | null;
  readonly isShown?: (known: Known) => boolean;
  readonly Content: ComponentType<TabProps>;
}

const none = (): null => null;

export const TABS: readonly RunTab[] = [
  { id: "steps", label: "Steps", hook: "pipeline", count: none, isShown: (known) => known.hasSteps, Content: Steps },
  { id: "summary", label: "Summary", count: none, Content: Summary },
  { id: "timeline", label: "Timeline", count: none, Content: Timeline },
  { id: "events", label: "Events", count: (run) => run.history_length, Content: Events },
  { id: "tree", label: "Tree", count: none, Content: Tree },
  { id: "state", label: "State", count: (_, known) => known.queries, Content: State },
  { id: "data", label: "Data", count: none, Content: Documents },
  { id: "attempts", label: "Attempts", count: none, Content: Attempts },
];
