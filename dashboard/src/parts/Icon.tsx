// Icons: our own strokes on a grid of 16, in the colour of the text.
const PATHS = {
  workflows: "M2.5 3.5h4v3h-4zM9.5 9.5h4v3h-4zM4.5 6.5v4.5h5",
  failures: "M8 2.5 14 13H2zM8 6.5v3M8 11.2v.1",
  schedules: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M8 5v3.2l2 1.3",
  workers: "M3 4.5h10v7H3zM6 2.5v2M10 2.5v2M6 11.5v2M10 11.5v2",
  queues: "M2.5 4h11M2.5 8h11M2.5 12h7",
  settings: "M2.5 5h6M12 5h1.5M2.5 11H4M7.5 11h6M10.2 3.2v3.6M5.8 9.2v3.6",
  batches: "M3 3.5h7v6H3zM6 12.5h7v-6",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  collapse: "M10 4 6 8l4 4",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9M10.5 10.5l3 3",
  signal: "M2.5 4h11v8.5h-11zM2.5 4.5 8 9l5.5-4.5",
  cancel: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M4 12l8-8",
  terminate: "M4.5 4.5h7v7h-7z",
  retry: "M13 8a5 5 0 1 1-1.5-3.6M13 2.5v3h-3",
  plus: "M8 3.5v9M3.5 8h9",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  link: "M6.5 9.5 9.5 6.5M7 4.5l1.2-1.2a3 3 0 0 1 4.4 4.4L11.4 9M9 11.5l-1.2 1.2a3 3 0 0 1-4.4-4.4L4.6 7",
  down: "M4 6.5 8 10l4-3.5",
  right: "M6.5 4 10 8l-3.5 4",
  left: "M9.5 4 6 8l3.5 4",
  up: "M8 13V3.5M4 7.5 8 3.5l4 4",
  download: "M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13h10",
  sun: "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6M8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5",
  edit: "M3 13l.6-3L10.5 3 13 5.5 6 12.4z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5 12 8l-7 4.5z",
  trash: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9",
  panel: "M2.5 3h11v10h-11zM9.5 3v10",
  check: "M3.5 8.5 6.5 11.5 12.5 4.5",
  activity:
    "M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4M8 2.2v2M8 11.8v2M2.2 8h2M11.8 8h2M3.9 3.9l1.4 1.4M10.7 10.7l1.4 1.4M3.9 12.1l1.4-1.4M10.7 5.3l1.4-1.4",
  step: "M6 3.5 10.5 8 6 12.5",
  child: "M5 3v10M5 8h4.5a2 2 0 0 0 2-2V4.5M9.7 6l1.8-2 1.8 2",
  run: "M2.5 8 8 3l5.5 5M4 7v6h8V7",
  tick: "M8 3v10",
  user: "M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8M3 13.5a5 5 0 0 1 10 0",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { readonly name: IconName }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
    <path d={PATHS[name]} />
  </svg>
);
