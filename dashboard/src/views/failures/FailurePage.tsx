import { get } from "../../data/client";
import type { FailureGroup } from "../../data/records";
import { useEvery, useResource } from "../../data/resource";
import { useView } from "../../frame/view";
import { Problem } from "../../parts/Problem";
import { Spark } from "../../parts/Spark";
import { Status } from "../../parts/Status";
import { Time } from "../../parts/Time";
import { here, href, namespace, runHref } from "../../router";
import { DetailHead, Fact } from "../Head";
import { FailureCard } from "../run/FailureCard";
import { GroupActions } from "./Failures";

const READ_MS = 5_000;

/** One group of runs that failed alike, with the failure of a sample. */
export function FailurePage({ fingerprint }: { readonly fingerprint: string }) {
  const ns = namespace.value;
  const found = useResource(
    JSON.stringify(["failure", ns, fingerprint]),
    async (signal) => (await get<FailureGroup>(["failures", fingerprint], { namespace: ns }, signal)).value,
  );
  useEvery(found, READ_MS);
  const { value: group, error } = found.state.value;
  const name = group ? `${group.type ?? group.kind} in ${group.where}` : fingerprint;
  useView(name, group ? "ready" : error ? "error" : "loading");
  return (
    <section class="page">
      <DetailHead view="failures" list="Failures" name={name}>
        {group && <GroupActions group={group} onDone={() => void found.refresh()} />}
      </DetailHead>
      {error && !group && <Problem problem={error} retry={() => void found.refresh()} />}
      {group && <Group group={group} />}
    </section>
  );
}

function Group({ group }: { readonly group: FailureGroup }) {
  const { sample } = group;
  return (
    <>
      <p class="why ended tone-red">{group.message}</p>
      <dl class="card facts-list">
        <Fact name="State">
          {group.state}
          {group.regressed && ", regressed"}
        </Fact>
        <Fact name="Runs">
          <a href={href({ view: "workflows", query: here({ failure: group.fingerprint }) })}>
            {group.count}, {group.open} of them open
          </a>
        </Fact>
        <Fact name="Workflow type">
          <span class="mono">{group.workflow_type}</span>
        </Fact>
        <Fact name="First seen">
          <Time at={group.first_seen} as="stamp" />
        </Fact>
        <Fact name="Last seen">
          <Time at={group.last_seen} as="stamp" />
        </Fact>
        <Fact name="Last 24 hours">
          <Spark values={group.per_hour} label="Failures per hour" />
        </Fact>
        {group.assignee !== null && <Fact name="Assigned to">{group.assignee}</Fact>}
        {group.note !== null && <Fact name="Note">{group.note}</Fact>}
        {group.builds.length > 0 && <Fact name="Builds">{group.builds.join(", ")}</Fact>}
      </dl>
      {sample && (
        <section class="card" aria-label="Sample">
          <h3>Newest run</h3>
          <p class="row">
            <Status run={sample} />
            <a class="mono" href={runHref(sample.workflow_id, sample.run_id)}>
              {sample.workflow_id}
            </a>
          </p>
        </section>
      )}
      {sample?.failure && <FailureCard failure={sample.failure} />}
    </>
  );
}
