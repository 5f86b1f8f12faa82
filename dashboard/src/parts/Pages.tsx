import { Icon } from "./Icon";

interface Props {
  /** Rows before the first one, or null where that is unknown. */
  readonly from: number | null;
  readonly shown: number;
  readonly total: number;
  readonly capped: boolean;
  readonly size: number;
  readonly onPrevious: (() => void) | null;
  readonly onNext: (() => void) | null;
  readonly onSize: (size: number) => void;
}

const SIZES = [25, 50, 100, 200];
const number = (value: number): string => value.toLocaleString("en");

/** Which rows are shown, and the way to the pages beside them. */
export function Pages({ from, shown, total, capped, size, onPrevious, onNext, onSize }: Props) {
  const range = from === null || shown === 0 ? number(shown) : `${number(from + 1)}–${number(from + shown)}`;
  return (
    <div class="pages">
      <span class="digits muted">
        {range} of {number(total)}
        {capped && "+"}
      </span>
      <span class="spacer" />
      <select
        aria-label="Rows per page"
        value={String(size)}
        onChange={(event) => onSize(Number(event.currentTarget.value))}
      >
        {SIZES.map((one) => (
          <option key={one} value={String(one)}>
            {one} rows
          </option>
        ))}
      </select>
      <button type="button" class="button" disabled={onPrevious === null} onClick={() => onPrevious?.()}>
        <Icon name="left" /> Previous
      </button>
      <button type="button" class="button" disabled={onNext === null} onClick={() => onNext?.()}>
        Next <Icon name="right" />
      </button>
    </div>
  );
}
