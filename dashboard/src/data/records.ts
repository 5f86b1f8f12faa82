// The records of the API, typed from its OpenAPI document. Fields that hold documents of users are `Doc`s.
import type { Doc } from "../json/parse";
import type { components } from "./api";

type Schemas = components["schemas"];

/** A record as the client reads it: what the document calls any value is a document with its text. */
export type Read<T> = T extends (infer Item)[]
  ? Read<Item>[]
  : T extends object
    ? { readonly [Name in keyof T]: unknown extends T[Name] ? Doc : Read<T[Name]> }
    : T;

export type Status = Schemas["WorkflowRecord"]["status"];
export type Failure = Read<Schemas["Failure"]>;
export type StartAnswer = Read<Schemas["StartAnswer"]>;
export type RetryAnswer = Read<Schemas["RetryAnswer"]>;
export type ActivityRecord = Read<Schemas["ActivityRecord"]>;
export type WorkerRecord = Read<Schemas["WorkerRecord"]>;
export type QueueStats = Read<Schemas["QueueStats"]>;
export type ScheduleRecord = Read<Schemas["ScheduleRecord"]>;
export type FireRecord = Read<Schemas["FireRecord"]>;
export type NamespaceRecord = Read<Schemas["NamespaceRecord"]>;
export type NamespaceStats = Read<Schemas["NamespaceStats"]>;
export type SessionRecord = Read<Schemas["SessionRecord"]>;
export type Version = Read<Schemas["Version"]>;
export type Health = Read<Schemas["Health"]>;

export type Attention = "none" | "watch" | "person" | "operator";

/** One thing that a run waits for. */
export interface Wait {
  readonly kind: string;
  readonly sentence: string;
  readonly attention: Attention;
  readonly since: number | null;
  readonly until: number | null;
  readonly seq?: number | null;
  readonly [field: string]: unknown;
}

/** Why a run is open: a headline and all waits, the most telling first. */
export interface WaitingOn {
  readonly kind?: string;
  readonly summary?: string;
  readonly attention?: Attention;
  readonly since?: number | null;
  readonly until?: number | null;
  readonly signal: string | null;
  readonly waits?: readonly Wait[];
  readonly more?: number;
  readonly as_of?: number;
}

/** A run. Lists in short form leave documents out. */
export type RunRecord = Omit<Read<Schemas["WorkflowRecord"]>, "waiting_on"> & { readonly waiting_on: WaitingOn | null };

/** Runs that failed alike. */
export type FailureGroup = Omit<Read<Schemas["FailureGroupRecord"]>, "sample"> & { readonly sample: RunRecord | null };

/** How many runs a filter finds, by status and by what they need. */
export interface RunCounts {
  readonly total: number;
  readonly capped: boolean;
  readonly by_status: Readonly<Record<string, number>>;
  readonly attention: { readonly operator: number; readonly person: number; readonly capped: boolean };
}

/** An event of a history. */
export interface EventRecord {
  readonly id: number;
  readonly workflow_id: string;
  readonly run_id: string;
  readonly seq: number;
  readonly event_type: string;
  readonly payload: Doc | null;
  readonly timestamp: number;
}

export interface Attempt {
  readonly attempt: number;
  readonly attempt_id: number | null;
  readonly outcome: string;
  readonly worker: string | null;
  readonly identity: string | null;
  readonly started_at: number | null;
  readonly ended_at: number | null;
  readonly failure: Failure | null;
}

/** An activity of a run with its attempts. */
export type ActivityWithAttempts = ActivityRecord & {
  readonly queued_at: number | null;
  readonly next_try_at: number | null;
  readonly last_failure: Failure | null;
  readonly heartbeat_details: Doc;
  readonly identity: string | null;
  readonly attempts: readonly Attempt[];
};

/** The results of the queries of a run, as of an event. */
export interface StateRecord {
  readonly state: Doc;
  readonly event_seq: number;
  readonly created_at: number;
}

export interface QueryRecord {
  readonly value: Doc;
  readonly event_seq: number;
  readonly created_at: number;
}

/** A frame of the event stream. */
export interface StreamFrame {
  readonly id: number;
  readonly ts: number;
  readonly namespace: string;
  readonly kind: string;
  readonly workflow_id: string;
  readonly run_id: string | null;
  readonly workflow_type: string | null;
}
