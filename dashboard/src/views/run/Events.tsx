import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useHistory } from "../../data/history";
import type { EventRecord } from "../../data/records";
import { JsonViewer, download } from "../../json/Viewer";
import {
  GROUPS,
  type Group,
  OUTCOME_GLYPHS,
  matches,
  outcomeOf,
  partnerKey,
  subjectOf,
  words,
} from "../../model/history";
import { clock, duration, isoTime, stamp } from "../../model/times";
import { CopyButton } from "../../parts/Copy";
import { Icon } from "../../parts/Icon";
import { Problem } from "../../parts/Problem";
import { Empty, Gap, useWindow } from "../../parts/Window";
import { namespace, route, setQuery } from "../../router";
import type { TabProps } from "./tabs";

const ROW = 32;

interface EventFilterState {
  readonly groups: ReadonlySet<Group>;
  readonly text: string;
  readonly newest: boolean;
}

/** The history as a table, with the payload of the chosen event beside it. */
export function Events({ run }: TabProps) {
  const history = useHistory(namespace.value, run.workflow_id, run.run_id, run.history_length);
  const [filter, setFilter] = useState<EventFilterState>({ groups: new Set(), text: "", newest: false });
  const chosen = Number(route.value.query["event"] ?? 0);
  const ordered = filter.newest ? history.events.toReversed() : history.events;
  const shown = ordered.filter((event) => matches(event, filter));
  const event = history.events.find((one) => one.seq === chosen);
  if (history.error && history.events.length === 0) return <Problem problem={history.error} retry={history.reload} />;
  return (
    <div class={`events${event ? " with-detail" : ""}`}>
      <EventBar
        filter={filter}
        onFilter={setFilter}
        shown={shown.length}
        total={history.total}
        onDownload={() => download(asJson(history.events), `${run.workflow_id}-history`)}
      />
      <div class="events-body">
        <EventTable events={shown} all={history.events} chosen={event} began={run.created_at} follow={!filter.newest} />
        {event && <EventDetail event={event} />}
      </div>
      {history.isComplete && shown.length === 0 && (
        <Empty title={history.events.length === 0 ? "Nothing has happened yet." : "No event matches."} />
      )}
    </div>
  );
}

const asJson = (events: readonly EventRecord[]): string =>
  `[\n${events.map((event) => `{"seq":${event.seq},"event_type":${JSON.stringify(event.event_type)},"timestamp":${event.timestamp},"payload":${event.payload?.text ?? "null"}}`).join(",\n")}\n]\n`;

interface BarProps {
  readonly filter: EventFilterState;
  readonly onFilter: (next: EventFilterState) => void;
  readonly shown: number;
  readonly total: number;
  readonly onDownload: () => void;
}

function EventBar({ filter, onFilter, shown, total, onDownload }: BarProps) {
  const toggle = (group: Group): void => {
    const groups = new Set(filter.groups);
    if (!groups.delete(group)) groups.add(group);
    onFilter({ ...filter, groups });
  };
  return (
    <div class="event-bar">
      <div class="search">
        <Icon name="search" />
        <input
          type="search"
          aria-label="Search events"
          placeholder="Search events…"
          value={filter.text}
          onInput={(event) => onFilter({ ...filter, text: event.currentTarget.value })}
        />
      </div>
      <div class="chips" role="group" aria-label="Kinds of events">
        <button
          type="button"
          class="chip"
          aria-pressed={filter.groups.size === 0}
          onClick={() => onFilter({ ...filter, groups: new Set() })}
        >
          All
        </button>
        {GROUPS.map((group) => (
          <button
            key={group}
            type="button"
            class="chip"
            aria-pressed={filter.groups.has(group)}
            onClick={() => toggle(group)}
          >
            {group}
          </button>
        ))}
      </div>
      <span class="spacer" />
      {shown !== total && (
        <span class="muted digits">
          {shown.toLocaleString("en")} of {total.toLocaleString("en")}
        </span>
      )}
      <select
        aria-label="Order"
        value={filter.newest ? "newest" : "oldest"}
        onChange={(event) => onFilter({ ...filter, newest: event.currentTarget.value === "newest" })}
      >
        <option value="oldest">Oldest first</option>
        <option value="newest">Newest first</option>
      </select>
      <button type="button" class="button quiet" onClick={onDownload}>
        <Icon name="download" /> Download history
      </button>
    </div>
  );
}

interface TableProps {
  readonly events: readonly EventRecord[];
  readonly all: readonly EventRecord[];
  readonly chosen: EventRecord | undefined;
  readonly began: number;
  readonly follow: boolean;
}

function EventTable({ events, all, chosen, began, follow }: TableProps) {
  const { ref, range } = useWindow(events.length, ROW);
  useFollow(ref, events.length, follow);
  const key = chosen ? partnerKey(chosen) : "";
  const times = new Map(all.map((event, index) => [event.seq, event.timestamp - (all[index - 1]?.timestamp ?? began)]));
  return (
    <div class="events-list" ref={ref}>
      <table class="table events-table" aria-label="Events" aria-rowcount={events.length + 1}>
        <thead>
          <tr>
            {["#", "Time", "+", "Event", "Subject"].map((header) => (
              <th key={header} scope="col">
                {header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap rows={range.from} rowHeight={ROW} columns={5} />
          {events.slice(range.from, range.to).map((event, index) => (
            <EventRow
              key={event.seq}
              event={event}
              index={range.from + index}
              delta={times.get(event.seq) ?? 0}
              isChosen={event === chosen}
              isPartner={key !== "" && event !== chosen && partnerKey(event) === key}
            />
          ))}
          <Gap rows={events.length - range.to} rowHeight={ROW} columns={5} />
        </tbody>
      </table>
    </div>
  );
}

/** Keeps a list at its end while it grows, if it was at its end. */
function useFollow(ref: { current: HTMLElement | null }, count: number, follow: boolean): void {
  const wasAtEnd = useRef(false);
  const before = useRef(count);
  useEffect(() => {
    const box = ref.current;
    const note = (): void => {
      wasAtEnd.current = box !== null && box.scrollTop > 0 && box.scrollHeight - box.scrollTop - box.clientHeight < ROW;
    };
    box?.addEventListener("scroll", note, { passive: true });
    return () => box?.removeEventListener("scroll", note);
  }, []);
  useLayoutEffect(() => {
    if (follow && wasAtEnd.current && count > before.current && ref.current)
      ref.current.scrollTop = ref.current.scrollHeight;
    before.current = count;
  }, [count]);
}

interface RowProps {
  readonly event: EventRecord;
  readonly index: number;
  readonly delta: number;
  readonly isChosen: boolean;
  readonly isPartner: boolean;
}

function EventRow({ event, index, delta, isChosen, isPartner }: RowProps) {
  const outcome = outcomeOf(event.event_type);
  const choose = (): void => setQuery({ event: isChosen ? "" : String(event.seq) });
  return (
    <tr
      data-testid="event-row"
      data-seq={event.seq}
      aria-rowindex={index + 2}
      class={`${isChosen ? "current" : ""}${isPartner ? " partner" : ""}`}
      onClick={choose}
    >
      <td class="digits muted">{event.seq}</td>
      <td class="digits">
        <time dateTime={isoTime(event.timestamp)} title={stamp(event.timestamp)}>
          {clock(event.timestamp, true)}
        </time>
      </td>
      <td class="digits muted">{duration(delta)}</td>
      <td>
        <button
          type="button"
          class={`plain outcome-${outcome}`}
          aria-pressed={isChosen}
          onClick={(click) => (click.stopPropagation(), choose())}
        >
          {OUTCOME_GLYPHS[outcome] !== "" && <span aria-hidden="true">{OUTCOME_GLYPHS[outcome]} </span>}
          {words(event.event_type)}
        </button>
      </td>
      <td class="mono subject">{subjectOf(event)}</td>
    </tr>
  );
}

function EventDetail({ event }: { readonly event: EventRecord }) {
  const subject = subjectOf(event);
  return (
    <section class="event-detail" aria-label="Event">
      <div class="event-detail-head">
        <b>
          Event {event.seq} · {event.event_type}
        </b>
        {subject !== "" && <span class="muted mono">{subject}</span>}
        <span class="spacer" />
        <CopyButton text={event.payload?.text ?? "null"} label="Copy payload" iconOnly />
        <CopyButton text={location.href} label="Copy link" iconOnly />
        <button type="button" class="icon-button" aria-label="Close event" onClick={() => setQuery({ event: "" })}>
          <Icon name="close" />
        </button>
      </div>
      {event.payload && <JsonViewer key={event.seq} doc={event.payload} name={`Event ${event.seq}`} />}
    </section>
  );
}
