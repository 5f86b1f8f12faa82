import { config } from "../../config";
import { apiUrl } from "../../data/client";
import { session, version } from "../../data/session";
import { connection } from "../../data/stream";

const words = (name: string): string => name.replaceAll("_", " ");
const shown = (name: string, value: number): string => {
  if (name.endsWith("_bytes"))
    return value % 1_048_576 === 0
      ? `${value / 1_048_576} MiB`
      : value % 1_024 === 0
        ? `${value / 1_024} KiB`
        : `${value} bytes`;
  return name.endsWith("_secs") ? `${value} s` : value.toLocaleString("en");
};

/** The engine behind this page: version, limits, how one signs in. */
export function EngineSection() {
  const engine = version.value;
  return (
    <section class="card" aria-label="Engine">
      <h2>Engine</h2>
      <dl class="facts-list">
        <div>
          <dt>Version</dt>
          <dd data-testid="settings-version">{engine?.version ?? "–"}</dd>
        </div>
        <div>
          <dt>Build profile</dt>
          <dd>{engine?.build_profile ?? "–"}</dd>
        </div>
        <div>
          <dt>Auth</dt>
          <dd>{session.value?.auth ?? "–"}</dd>
        </div>
        <div>
          <dt>Event stream</dt>
          <dd>{connection.value}</dd>
        </div>
        <div>
          <dt>Links</dt>
          <dd class="row">
            <a href={document.querySelector<HTMLAnchorElement>("#api-docs")?.href ?? apiUrl(["docs"])}>API docs</a>
            <a href={apiUrl(["openapi.json"])}>OpenAPI</a>
          </dd>
        </div>
        <div>
          <dt>Address</dt>
          <dd>
            <code>{config.api}</code>
          </dd>
        </div>
      </dl>
      <details class="limits">
        <summary>Limits</summary>
        <dl class="facts-list">
          {Object.entries(engine?.limits ?? {}).map(([name, value]) => (
            <div key={name}>
              <dt>{words(name)}</dt>
              <dd class="digits">{shown(name, value)}</dd>
            </div>
          ))}
        </dl>
      </details>
    </section>
  );
}
