import { signal } from "@preact/signals";
import { activeScopes } from "../keys";
import { Dialog } from "../parts/Dialog";

export const helpOpen = signal(false);

/** The keys that act in the shown view. */
export function Shortcuts() {
  if (!helpOpen.value) return null;
  return (
    <Dialog title="Keyboard" onClose={() => (helpOpen.value = false)}>
      {activeScopes().map((scope) => (
        <section key={scope.name}>
          <h3>{scope.name}</h3>
          <dl class="keys">
            {scope.shortcuts.map((one) => (
              <div key={one.keys}>
                <dt>
                  {one.keys.split(" ").map((key) => (
                    <kbd>{key}</kbd>
                  ))}
                </dt>
                <dd>{one.label}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </Dialog>
  );
}
