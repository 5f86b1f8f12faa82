import { useState } from "preact/hooks";
import { SelectField } from "../../actions/fields";
import { read } from "../../data/session";
import { type Theme, setSetting, setTheme, theme } from "../../data/theme";

const THEMES = [
  ["system", "As the system"],
  ["light", "Light"],
  ["dark", "Dark"],
] as const;

/** A choice that is kept in this browser. */
function useSetting(name: string, fallback: string): [string, (value: string) => void] {
  const [value, setValue] = useState(read(name) ?? fallback);
  return [
    value,
    (next) => {
      setValue(next);
      setSetting(name, next);
    },
  ];
}

export function Appearance() {
  const [density, setDensity] = useSetting("assay-density", "regular");
  const [motion, setMotion] = useSetting("assay-motion", "system");
  const [keys, setKeys] = useSetting("assay-shortcuts", "on");
  return (
    <section class="card" aria-label="Appearance">
      <h2>Appearance</h2>
      <div class="field-pair">
        <SelectField
          label="Colour theme"
          value={theme.value}
          options={THEMES}
          onChange={(value) => setTheme(value as Theme)}
        />
        <SelectField
          label="Density"
          value={density}
          options={[
            ["regular", "Regular"],
            ["compact", "Compact"],
          ]}
          onChange={setDensity}
        />
        <SelectField
          label="Motion"
          value={motion}
          options={[
            ["system", "As the system"],
            ["reduced", "Reduced"],
          ]}
          onChange={setMotion}
        />
        <SelectField
          label="Single-key shortcuts"
          value={keys}
          options={[
            ["on", "On"],
            ["off", "Off"],
          ]}
          onChange={setKeys}
        />
      </div>
    </section>
  );
}
