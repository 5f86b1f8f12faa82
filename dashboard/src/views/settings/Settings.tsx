import { useView } from "../../frame/view";
import { Tabs } from "../../parts/Tabs";
import { route, setQuery } from "../../router";
import { Appearance } from "./Appearance";
import { EngineSection } from "./EngineSection";
import { Namespaces } from "./Namespaces";

const SECTIONS = [
  { id: "engine", label: "Engine", Content: EngineSection },
  { id: "namespaces", label: "Namespaces", Content: Namespaces },
  { id: "appearance", label: "Appearance", Content: Appearance },
] as const;

export function View() {
  const asked = route.value.query["section"];
  const chosen = SECTIONS.filter((section) => section.id === asked);
  useView("Settings", "ready");
  return (
    <section class="page settings">
      <header class="page-head">
        <h1>Settings</h1>
      </header>
      <Tabs
        label="Sections"
        tabs={[{ id: "all", label: "All" }, ...SECTIONS.map(({ id, label }) => ({ id, label }))]}
        selected={chosen[0]?.id ?? "all"}
        onSelect={(id) => setQuery({ section: id === "all" ? "" : id })}
      />
      <div id="tab-panel" role="tabpanel" class="settings-sections" aria-labelledby={`tab-${chosen[0]?.id ?? "all"}`}>
        {(chosen.length > 0 ? chosen : SECTIONS).map(({ id, Content }) => (
          <Content key={id} />
        ))}
      </div>
    </section>
  );
}
