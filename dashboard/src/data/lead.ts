// Chooses the tab that reads the event stream: by a lock of the browser, or by a lease in its storage.
const NAME = "assay-stream";
const LEASE_MS = 5_000;

/** Calls back once this tab leads; another tab takes over when this tab is closed. */
export async function holdLead(lead: () => void): Promise<void> {
  // Plain http beyond this machine is no secure context, and has no locks.
  if (navigator.locks === undefined) return holdLease(lead);
  await navigator.locks.request(NAME, () => {
    lead();
    return new Promise<never>(() => undefined);
  });
}

function holdLease(lead: () => void): void {
  const own = String(Math.random());
  let leading = false;
  const renew = (): void => {
    const [owner = "", until = "0"] = (localStorage.getItem(NAME) ?? "").split(" ");
    if (owner !== own && Number(until) > Date.now()) return;
    localStorage.setItem(NAME, `${own} ${Date.now() + LEASE_MS}`);
    if (!leading && owner === own) {
      leading = true;
      lead();
    }
  };
  try {
    renew();
    renew();
    setInterval(renew, LEASE_MS / 3);
    addEventListener("pagehide", () => leading && localStorage.removeItem(NAME));
  } catch {
    lead(); // No storage, so no other tab can be asked: each tab reads a stream of its own.
  }
}
