import { Component, type ComponentType, h } from "preact";

/** Renders a component again only if one of its properties has changed. */
export function memo<Props extends object>(Inner: ComponentType<Props>): ComponentType<Props> {
  return class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Props): boolean {
      const before = this.props as Record<string, unknown>;
      return Object.entries(next).some(([name, value]) => before[name] !== value);
    }

    override render(props: Props) {
      return h(Inner, props);
    }
  };
}
