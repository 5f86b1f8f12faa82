/** Counts as small bars, the oldest first. */
export function Spark({ values, label }: { readonly values: readonly number[]; readonly label: string }) {
  const most = Math.max(...values, 1);
  return (
    <svg class="spark" viewBox={`0 0 ${values.length * 4} 20`} role="img" aria-label={label} preserveAspectRatio="none">
      {values.map((value, index) => {
        const height = value === 0 ? 1 : Math.max(2, (value / most) * 20);
        return (
          <rect key={index} x={index * 4} y={20 - height} width={3} height={height} class={value === 0 ? "none" : ""} />
        );
      })}
    </svg>
  );
}
