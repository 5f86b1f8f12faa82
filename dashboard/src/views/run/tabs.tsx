// The tabs of a run, in their order: a new one has a file beside this one, and a line here.
import type { ComponentType } from "preact";
import type { RunRecord } from "../../data/records";
import { Documents } from "./Documents";
import { Events } from "./Events";
import { Summary } from "./Summary";

export interface TabProps {
  readonly run: RunRecord;
  readonly isPanel: boolean;
}
export type TabId = "steps" | "summary" | "timeline" | "events" | "tree" | "state" | "data" | "attempts" | "logs";
export interface RunTab {
  readonly id: TabId;
  readonly label: string;
  readonly hook?: string;
  readonly count: (run: RunRecord) => number | null;
  readonly Content: ComponentType<TabProps>;
}

const none = (): null => null;

export const TABS: readonly RunTab[] = [
  { id: "summary", label: "Summary", count: none, Content: Summary },
  { id: "events", label: "Events", count: (run) => run.history_length, Content: Events },
  { id: "data", label: "Data", count: none, Content: Documents },
];
