// Near-duplicates: each group is a star, all of its members close to the one in the middle.
import { html, useState } from "../dom.js";
import { href, useAnswer, useLink, useRoute } from "../state.js";
import { called, count, Failure, ItemLink, many, Picture, Slider, two, Waiting } from "../parts.js";

const SHOWN = 24;

export function Groups({ store }) {
  const { params, go } = useRoute();
  const link = useLink();
  const [more, setMore] = useState(SHOWN);
  const asked = Number(params.min);
  const { data, error, progress, loading, retry } = useAnswer(
    store.items > 1 && store.quantity ? href("/api/v1/groups", { min: asked > 0 && asked <= 1 ? asked.toFixed(2) : undefined }) : null);
  if (store.items < 2) return html`<main><p class="empty">Groups need at least two items.</p></main>`;
  if (!store.quantity) return html`<main><p class="empty">The codes of this store were made elsewhere and tell no similarity, so groups have no measure.</p></main>`;
  const name = called(store.quantity);
  const low = data?.background ? Math.ceil(100 * data.background.high) / 100 : 0;
  const least = data ? data.least : asked || low;
  return html`<main class="two">
    <aside aria-label="How alike">
      <${Slider} label=${`At least this ${name}`} min=${Math.min(low, least)} max=${1} step=${0.01} value=${asked > 0 ? asked : least}
        onChange=${(value) => { setMore(SHOWN); go("/groups", { min: value.toFixed(2) }, { replace: true }); }}
        hint=${`From ${two(low)}, above which 5 % of random pairs lie, to 1, the same.`} />
      <p class="hint">Every member is that alike to the item in the middle. Members are not chained: two of them need not be alike themselves.</p>
    </aside>
    <div class=${`main${loading ? " loading" : ""}`}>
      <h1>${data ? (data.groups.length ? `${many(data.groups.length, "group")} hold ${count(data.grouped)} of ${count(data.items)} items` : "No two items are that alike") : "Groups"}</h1>
      ${error && html`<${Failure} text=${error} retry=${retry} />`}
      ${(progress || (!data && !error)) && html`<${Waiting} progress=${progress} text="Comparing all pairs …" />`}
      ${data && html`<p class="summary" aria-live="polite"><span>${name} of at least ${two(data.least)}</span>
        ${data.radius >= 0 && html`<span>at most ${count(data.radius)} of ${count(data.bits)} bits differ</span>`}</p>
        ${!data.groups.length && html`<p class="empty">Nothing here is nearly the same. Move the slider down to see what is merely alike.</p>`}
        <ol class="stars">${data.groups.slice(0, more).map((group) => html`<li key=${group.centre.row} class="star">
          <div class="centre"><${ItemLink} row=${group.centre.row} name=${group.centre.id}><${Picture} store=${store} row=${group.centre.row} name=${group.centre.id} side=${320} /><//>
            <span class="clip" title=${group.centre.id}>${group.centre.caption ?? group.centre.id}</span><span class="hint">${many(group.members.length, "other")}</span></div>
          <ol class="strip">${group.members.slice(0, 18).map((member) => html`<li key=${member.row}>
            <a ...${link("/pair", { a: group.centre.row, b: member.row })} ><span class="hidden">Compare ${group.centre.id} with ${member.id}</span><${Picture} store=${store} row=${member.row} name=${member.id} /></a>
            <span><strong>${two(member.similarity)}</strong></span><span class="hint">${two(member.interval[0])} – ${two(member.interval[1])}</span></li>`)}
            ${group.members.length > 18 && html`<li class="rest">and ${count(group.members.length - 18)} more</li>`}</ol>
        </li>`)}</ol>
        ${data.groups.length > more && html`<button type="button" onClick=${() => setMore(more + SHOWN)}>Show more groups</button>`}`}
    </div>
  </main>`;
}
