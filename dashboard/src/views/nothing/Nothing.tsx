import { useView } from "../../frame/view";
import { href, here } from "../../router";

export function View() {
  useView("Nothing here", "ready");
  return (
    <section class="page">
      <h1>Nothing here</h1>
      <p class="muted">This address belongs to no view of the dashboard.</p>
      <p>
        <a class="button" href={href({ view: "workflows", query: here() })}>
          Workflows
        </a>
      </p>
    </section>
  );
}
