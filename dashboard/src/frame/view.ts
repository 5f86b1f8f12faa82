// What a view says about itself: its title, and whether its data is there.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { config } from "../config";
import { rememberedScroll, route } from "../router";

export type ViewState = "loading" | "ready" | "empty" | "error";

export const viewState = signal<ViewState>("loading");
const announced = signal("");
export const announcement = announced;

/** Lets screen readers say a sentence when they have a moment. */
export const announce = (text: string): void => {
  announced.value = text;
};

/** Sets title and state of the shown view; an empty name is the list, whose title is the page title alone. */
export function useView(name: string, state: ViewState): void {
  useLayoutEffect(() => {
    document.title = name === "" ? config.pageTitle : `${name} · ${config.pageTitle}`;
  }, [name]);
  useLayoutEffect(() => {
    viewState.value = state;
  }, [state]);
  const isThere = state === "ready" || state === "empty";
  useEffect(() => {
    if (isThere) document.getElementById("content")?.scrollTo({ top: rememberedScroll() });
  }, [isThere, route.value.view]);
}
