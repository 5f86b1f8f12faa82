import { useEffect, useState } from "preact/hooks";
import { ApiProblem, apiUrl } from "../../data/client";
import { isSignedOut, session, signIn } from "../../data/session";
import { useView } from "../../frame/view";
import { routeAfterSignIn } from "../../frame/signing";
import { go, route } from "../../router";

/** The sign-in page: a key or a token, the provider's own page, or how to make the first key. */
export function View() {
  const next = route.value.query["next"] ?? "";
  const known = session.value;
  const isOpen = known !== null && !isSignedOut.value;
  useEffect(() => {
    if (isOpen) go(routeAfterSignIn(next), "replace");
  }, [isOpen]);
  useView("Sign in", known === null ? "loading" : "ready");
  if (known === null || isOpen) return null;
  const { api_key: byKey, oidc, bootstrap } = known.sign_in;
  return (
    <section class="page sign-in">
      <h1>Sign in</h1>
      {byKey && <KeyForm label={known.auth === "jwt" ? "Access token" : "API key"} />}
      {oidc !== null && (
        <a class="button sign-in-other" href={providerUrl(next)}>
          Sign in with {oidc}
        </a>
      )}
      {bootstrap && (
        <p class="muted">
          There is no key yet. Make the first one on the engine's machine: <code>assay serve --generate-api-key</code>
        </p>
      )}
    </section>
  );
}

const providerUrl = (next: string): string => apiUrl(["session", "oidc"], next === "" ? {} : { next });

function KeyForm({ label }: { readonly label: string }) {
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const submit = async (): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      await signIn(key.trim());
    } catch (error) {
      if (!(error instanceof ApiProblem)) throw error;
      setProblem(error.status === 401 ? `This ${label === "API key" ? "key" : "token"} is not valid.` : error.message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      class="sign-in-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy && key.trim() !== "") void submit();
      }}
    >
      <label class="field">
        <span>{label}</span>
        <input
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          value={key}
          aria-invalid={problem !== null}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      {problem !== null && (
        <p class="field-problem" role="alert">
          {problem}
        </p>
      )}
      <button type="submit" class="button primary" aria-busy={busy} disabled={busy}>
        Sign in
      </button>
    </form>
  );
}
