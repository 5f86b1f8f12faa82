/** A part of a whole as a bar, with its words beside it. */
export function Bar({ part, whole }: { readonly part: number; readonly whole: number }) {
  const share = whole > 0 ? Math.min(part / whole, 1) : 0;
  return (
    <span class="bar-cell">
      <svg class="bar" viewBox="0 0 60 8" preserveAspectRatio="none" aria-hidden="true">
        <rect class="bar-whole" width="60" height="8" rx="2" />
        <rect class="bar-part" width={60 * share} height="8" rx="2" />
      </svg>
      <span class="digits">
        {part} of {whole}
      </span>
    </span>
  );
}
