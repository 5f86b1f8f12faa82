import { useState } from "preact/hooks";
import { assayCommand } from "../model/command";
import { Action } from "./Action";
import { Confirm, TextField } from "./fields";

export function CreateNamespaceDialog({ onDone }: { readonly onDone: () => void }) {
  const [name, setName] = useState("");
  return (
    <Action
      title="Create namespace"
      verb="Create namespace"
      refusal={name.trim() === "" ? "Give it a name." : null}
      request={{ method: "POST", parts: ["namespaces"], body: JSON.stringify({ name: name.trim() }) }}
      command={assayCommand(["namespace", "create", name.trim() || "NAME"], {}, "main")}
      done={() => {
        onDone();
        return { text: `Created namespace ${name.trim()}.` };
      }}
    >
      <p class="muted">Runs, schedules and workers of one namespace are apart from those of all others.</p>
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        isRequired
        hint="At most 255 bytes, without control characters."
      />
    </Action>
  );
}

export function DeleteNamespaceDialog({ name, onDone }: { readonly name: string; readonly onDone: () => void }) {
  const [typed, setTyped] = useState("");
  return (
    <Action
      title={`Delete namespace ${name}?`}
      verb="Delete namespace"
      keep="Keep it"
      isDangerous
      refusal={typed === name ? null : "Type the name to confirm."}
      request={{ method: "DELETE", parts: ["namespaces", name], body: null }}
      command={assayCommand(["namespace", "delete", name], {}, "main")}
      done={() => {
        onDone();
        return { text: `Deleted namespace ${name}.` };
      }}
    >
      <p>It must have no open runs and no schedules. Closed runs stay in the database.</p>
      <Confirm word={name} value={typed} onChange={setTyped} />
    </Action>
  );
}
