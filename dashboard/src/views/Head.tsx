import type { ComponentChildren } from "preact";
import { Icon } from "../parts/Icon";
import { type ListView, here, href } from "../router";

/** The heading of a list, with its buttons. */
export const ListHead = ({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) => (
  <header class="page-head">
    <h1>{title}</h1>
    <span class="spacer" />
    {children}
  </header>
);

interface DetailProps {
  readonly view: ListView;
  readonly list: string;
  readonly name: string;
  readonly children?: ComponentChildren;
}

/** The heading of one thing of a list: the way back, its name, and its buttons. */
export const DetailHead = ({ view, list, name, children }: DetailProps) => (
  <header class="page-head detail-head">
    <a class="back" href={href({ view, name: null, query: here() })}>
      <Icon name="left" />
      {list}
    </a>
    <h1 class="id">{name}</h1>
    <span class="spacer" />
    {children}
  </header>
);

export const Fact = ({ name, children }: { readonly name: string; readonly children: ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);
