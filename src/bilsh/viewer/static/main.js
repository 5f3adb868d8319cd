// The frame around the pages: which one, what is looked at, and what has become of it.
import { html, render, useEffect, useState } from "./dom.js";
import { ask, RouteProvider, useAddress, useLink } from "./state.js";
import { count, Failure } from "./parts.js";
import { Neighbours } from "./pages/neighbours.js";
import { Pair } from "./pages/pair.js";
import { Bits } from "./pages/bits.js";
import { Groups } from "./pages/groups.js";
import { Meaning } from "./pages/meaning.js";

const PAGES = [
  ["/", "Neighbours", Neighbours],
  ["/pair", "Pair", Pair],
  ["/bits", "Bits", Bits],
  ["/groups", "Groups", Groups],
  ["/meaning", "Meaning", Meaning],
];
const ANYWHERE = ["/bits", "/meaning"];

function Nav({ path, store }) {
  const link = useLink();
  const pages = store.kind === "store" ? PAGES : PAGES.filter(([at]) => ANYWHERE.includes(at));
  return html`<nav aria-label="Pages">${pages.map(([at, name]) => html`<a key=${at} ...${link(at)} aria-current=${path === at ? "page" : undefined}>${name}</a>`)}</nav>`;
}

function App() {
  const route = useAddress();
  const [store, setStore] = useState(null);
  const [error, setError] = useState(null);
  const load = () => ask("/api/v1/store").then(setStore, (problem) => setError(problem.message));
  useEffect(() => {
    load();
    // Coming back to the page is a good time to see whether the store has changed.
    const look = () => document.visibilityState === "visible" && load();
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  const Page = PAGES.find(([at]) => at === route.path)?.[2];
  const facts = store && (store.kind === "store"
    ? `${count(store.items)} items · ${store.codes} codes of ${count(store.bits)} bits`
    : store.kind === "folder" ? "a folder of images" : "an array file");
  useEffect(() => {
    if (route.path !== "/") document.title = `${PAGES.find(([at]) => at === route.path)?.[1] ?? ""} · bilsh`;
  }, [route.path]);
  // The frame waits for the facts it shows, so that nothing moves when they arrive.
  if (!store && !error) return html`<main><p class="boot" role="status">Opening …</p></main>`;
  return html`<${RouteProvider} value=${route}>
    <a class="skip" href="#content">Skip to the content</a>
    <header><span class="brand">bilsh</span>${store && html`<${Nav} path=${route.path} store=${store} />
      <p class="facts" title=${facts}><strong>${store.name}</strong> · ${facts}</p>`}</header>
    ${store?.news && html`<p class="news" role="status">${store.news}</p>`}
    <div id="content" tabindex="-1">
      ${error && !store ? html`<main><${Failure} text=${error} retry=${() => { setError(null); load(); }} /></main>`
        : store.kind !== "store" && !ANYWHERE.includes(route.path)
          ? html`<main><p class="empty">There is no store yet, so there are no neighbours to show. <a href="/bits">How many bits would it take?</a></p></main>`
        : Page ? html`<${Page} store=${store} />` : html`<main><p class="empty">There is no such page.</p></main>`}
    </div>
  <//>`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
