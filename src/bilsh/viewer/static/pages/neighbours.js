// One item, its neighbours at every length of code, and which of them mean something.
import { html, useEffect, useMemo, useRef, useState } from "../dom.js";
import { href, useAnswer, useKeys, useLink, useRoute, whole } from "../state.js";
import { called, Choice, count, Failure, Finder, ItemLink, many, Numbers, Picture, size, Steps, time, two, Waiting, Whisker } from "../parts.js";
import { Histogram } from "../charts.js";

const WAYS = { hamming: "bits", asymmetric: "real values", reranked: "re-ranked" };
const SIZES = [6, 12, 24, 48, 96];

export function domainOf(answer) {
  const lows = answer.ladder.flatMap((step) => step.neighbors.map((hit) => (hit.interval ? hit.interval[0] : 1)));
  const low = Math.min(answer.background?.low ?? 0, ...lows);
  return [Math.max(answer.quantity === "kernel" ? 0 : -1, low - 0.03), 1];
}

function Hit({ hit, answer, store, domain, params, only, asked }) {
  const link = useLink();
  const grey = hit.stands_out === false;
  const right = hit.true_rank !== null && hit.true_rank <= answer.k;
  const told = hit.similarity === null ? `${count(hit.distance)} bits` : two(hit.similarity);
  return html`<li class=${`hit-tile${grey ? " grey" : ""}${right ? " right" : ""}`}>
    <${ItemLink} row=${hit.row} name=${hit.id} params=${params}>
      <${Picture} store=${store} row=${hit.row} name=${hit.id} />
      ${hit.true_rank !== null && html`<span class="badge">${right ? "✓ " : ""}true rank ${count(hit.true_rank)}</span>`}
      ${only && html`<span class="badge only">${only}</span>`}
    <//>
    <div class="hit-line"><strong>${told}</strong>
      ${hit.interval && html`<span class="range"><span class="hidden">${Math.round(100 * answer.confidence)} % interval </span>${two(hit.interval[0])} – ${two(hit.interval[1])}</span>`}</div>
    ${hit.interval && html`<${Whisker} value=${hit.similarity} interval=${hit.interval} exact=${hit.true_similarity} band=${answer.background} domain=${domain} muted=${grey} />`}
    <div class="hit-line small"><span class="clip" title=${answer.captions[hit.row] ?? hit.id}>${answer.captions[hit.row] ?? hit.id}</span>
      ${asked !== null && html`<a class="why" ...${link("/pair", { a: asked, b: hit.row })} >why?<span class="hidden"> Compare with ${hit.id}</span></a>`}</div>
    ${grey && html`<span class="hidden">may be as unrelated as a random pair</span>`}
  </li>`;
}

function Legend({ answer, truth }) {
  if (!answer.background || answer.quantity === null) return null;
  const share = Math.round(100 * answer.background.share);
  const name = called(answer.quantity);
  return html`<p class="legend">
    <span><i class="key value-key"></i> ${name} as the codes tell it, with its ${Math.round(100 * answer.confidence)} % interval</span>
    ${truth && html`<span><i class="key exact-key"></i> true ${name}</span>`}
    <span><i class="key band-key"></i> ${share} % of random pairs; a hit whose interval reaches into it is grey: it may mean nothing</span>
  </p>`;
}

function Grid({ step, answer, store, domain, params, title, others, asked }) {
  const there = others ? new Set(others.neighbors.map((hit) => hit.row)) : null;
  return html`<section aria-label=${title}>
    ${others && html`<h2 class="small">${title}</h2>`}
    <ol class="grid">${step.neighbors.map((hit) => html`<${Hit} key=${hit.row} hit=${hit} answer=${answer} store=${store} domain=${domain}
      params=${params} asked=${asked} only=${there && !there.has(hit.row) ? "only here" : null} />`)}</ol>
    ${step.neighbors.length === 0 && html`<p class="empty">Nothing found: there are no other items.</p>`}
  </section>`;
}

function Drop({ store, onQuery }) {
  const [over, setOver] = useState(false);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const input = useRef(null);
  const send = async (file) => {
    setProblem(null);
    if (!file) return;
    if (file.size > 20e6) {
      setProblem("The file is larger than 20 MB; shrink it first.");
      return;
    }
    setBusy(true);
    try {
      const answer = await fetch(`/api/v1/queries?name=${encodeURIComponent(file.name.slice(0, 200))}`, { method: "POST", body: file });
      const body = await answer.json();
      if (!answer.ok) throw new Error(body.error);
      onQuery(body.query);
    } catch (error) {
      setProblem(error.message);
    }
    setBusy(false);
  };
  const what = store.images ? "an image or .npy" : "an .npy file";
  return html`<div class=${`drop${over ? " over" : ""}`} onDragOver=${(e) => { e.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)}
      onDrop=${(e) => { e.preventDefault(); setOver(false); send(e.dataTransfer.files[0]); }}>
    <input ref=${input} type="file" class="hidden" tabindex="-1" aria-label=${`Ask with ${what}`} accept=${store.images ? "image/*,.npy" : ".npy"}
      onChange=${(e) => { send(e.target.files[0]); e.target.value = ""; }} />
    <button type="button" class="plain" disabled=${busy} onClick=${() => input.current.click()}>${busy ? "Reading …" : `Drop ${what} here, or choose one`}</button>
    <p role="alert" class="problem">${problem}</p>
  </div>`;
}

export function Neighbours({ store }) {
  const { params, go } = useRoute();
  const link = useLink();
  const query = params.query;
  const item = query ? null : Math.min(whole(params.item, 0), Math.max(0, store.items - 1));
  const k = SIZES.includes(whole(params.k)) ? whole(params.k) : 24;
  const mode = WAYS[params.mode] ? params.mode : "hamming";
  const last = store.ladder[store.ladder.length - 1];
  const bits = store.ladder.includes(whole(params.bits)) ? whole(params.bits) : last;
  const vs = params.vs === "full" || (WAYS[params.vs] && params.vs !== mode) ? params.vs : undefined;
  const set = (change, options) => go("/", { ...params, ...change }, { keep: true, ...options });
  const who = query ? { query } : { item };
  const { data, error, loading, retry } = useAnswer(store.items ? href("/api/v1/neighbours", { ...who, k, mode }) : null);
  const second = useAnswer(vs && vs !== "full" && data ? href("/api/v1/neighbours", { ...who, k, mode: vs }) : null);
  const setBits = (value) => set({ bits: value }, { replace: true });
  const walk = (by) => go("/", { ...params, query: undefined, item: ((item ?? 0) + by + store.items) % store.items }, { keep: true });
  const random = () => walk(1 + Math.floor(Math.random() * Math.max(1, store.items - 1)));
  const rung = store.ladder.indexOf(bits);
  useKeys({
    ArrowLeft: () => walk(-1),
    ArrowRight: () => walk(1),
    r: random,
    "[": () => rung > 0 && setBits(store.ladder[rung - 1]),
    "]": () => rung < store.ladder.length - 1 && setBits(store.ladder[rung + 1]),
  });
  const domain = useMemo(() => (data && data.quantity ? domainOf(data) : [0, 1]), [data]);
  useEffect(() => {
    document.title = data ? `${data.query.id} · bilsh` : "bilsh";
  }, [data]);

  if (!store.items) return html`<main><p class="empty">This store is empty. Add items with <code>bilsh add</code>, then open it again.</p></main>`;
  const real = store.vectors || query ? null : "needs the query's real values; this store keeps only codes";
  const kept = store.vectors ? null : "needs vectors; this store keeps only codes";
  const step = data?.ladder.find((rung_) => rung_.bits === bits);
  const name = data ? String(data.query.id) : "";
  const right = step?.neighbors.filter((hit) => hit.true_rank !== null && hit.true_rank <= k).length;
  const out = step?.neighbors.filter((hit) => hit.stands_out).length;
  const passed = { k: params.k, mode: params.mode, bits: params.bits, vs: params.vs };
  const caption = data && item !== null ? data.captions[item] : null;
  const otherStep = vs === "full" ? data?.ladder[data.ladder.length - 1] : second.data?.ladder.find((rung_) => rung_.bits === bits);
  const otherAnswer = vs === "full" ? data : second.data;
  return html`<main class="two">
    <aside aria-label="Query and settings">
      <div class="asked">
        <${Picture} store=${store} row=${item} side=${640} name=${name} eager=${true} src=${query ? `/api/v1/queries/${encodeURIComponent(query)}/thumb` : undefined}
          blocks=${query ? Boolean(data?.query.heat_map) : undefined} />
        <p class="who"><strong class="clip" title=${name}>${name || " "}</strong>
          ${data?.query.note && html`<span class="hint">${data.query.note}</span>`}
          ${caption && html`<span class="hint">${caption}</span>`}</p>
      </div>
      <div class="row">
        <button type="button" onClick=${() => walk(-1)} aria-label="Previous item">←</button>
        <button type="button" onClick=${random}>Random</button>
        <button type="button" onClick=${() => walk(1)} aria-label="Next item">→</button>
      </div>
      <${Finder} label="Find an item by name" store=${store} onPick=${(row) => go("/", { ...params, query: undefined, item: row }, { keep: true })} />
      ${store.uploads && html`<${Drop} store=${store} onQuery=${(key) => go("/", { ...params, item: undefined, query: key }, { keep: true })} />`}
      <${Steps} label="Bits used" steps=${store.ladder} value=${bits} onChange=${setBits}
        hint=${`${count(Math.ceil(bits / 8))} bytes per item, ${size(1e6 * Math.ceil(bits / 8))} per million. A prefix of a code is a code: nothing is computed anew.`} />
      <${Choice} label="Ranked by" value=${mode} onChange=${(key) => set({ mode: key === "hamming" ? undefined : key })}
        options=${[["hamming", "bits"], ["asymmetric", "real values", real], ["reranked", "re-ranked", kept]]}
        hint=${{ hamming: "Differing bits: the quickest.", asymmetric: "The query's real numbers against stored bits: finds more with the same codes.", reranked: "The best by real values, ordered by their exact distance." }[mode]} />
      <div class="row wide">
        <label class="pick">Show <select value=${k} onChange=${(e) => set({ k: e.target.value === "24" ? undefined : e.target.value })}>
          ${SIZES.map((n) => html`<option value=${n} selected=${n === k}>${n}</option>`)}</select></label>
        <label class="pick">Beside <select value=${vs ?? ""} onChange=${(e) => set({ vs: e.target.value || undefined })}>
          <option value="" selected=${!vs}>nothing</option>
          <option value="full" selected=${vs === "full"}>all ${count(last)} bits</option>
          ${Object.entries(WAYS).filter(([key]) => key !== mode).map(([key, text]) => html`<option value=${key} selected=${vs === key}
            disabled=${Boolean({ hamming: null, asymmetric: real, reranked: kept }[key])}>${text}</option>`)}
        </select></label>
      </div>
    </aside>
    <div class=${`main${loading ? " loading" : ""}`}>
      ${error && html`<${Failure} text=${error} retry=${retry} />`}
      ${!data && !error && html`<h1>Neighbours</h1><${Waiting} text="Searching; the first answer takes a little longer …" />
        <ol class="grid ghost" aria-hidden="true">${Array.from({ length: Math.min(k, 24) }, (_, i) => html`<li key=${i} class="hit-tile"><span class="picture"></span></li>`)}</ol>`}
      ${data && step && html`
        <div class="head">
          <h1>${many(step.neighbors.length, "nearest", "nearest")} at ${count(bits)} bits</h1>
          <p class="summary" aria-live="polite">
            ${data.truth && html`<span class="good">${right} of ${step.neighbors.length} are among the true ${step.neighbors.length}</span>`}
            ${data.quantity && data.background && html`<span>${out === 0 ? "none stands out" : `${out} stand${out === 1 ? "s" : ""} out`} from random pairs</span>`}
            <span>${time(step.seconds)}</span>
            ${item !== null || query ? html`<a href=${href("/api/v1/neighbours.csv", { ...who, k, mode, bits })} download>CSV</a>` : null}
          </p>
        </div>
        <${Legend} answer=${data} truth=${data.truth} />
        ${step.notes.map((note) => html`<p class="note">${note}</p>`)}
        <div class=${vs ? "beside" : ""}>
          <${Grid} step=${step} answer=${data} store=${store} domain=${domain} params=${passed} asked=${item} others=${vs ? otherStep : null}
            title=${vs ? `A: by ${WAYS[mode]}, ${count(bits)} bits` : "Neighbours"} />
          ${vs && otherStep && html`<${Grid} step=${otherStep} answer=${otherAnswer} store=${store} domain=${domain} params=${passed} asked=${item} others=${step}
            title=${vs === "full" ? `B: by ${WAYS[mode]}, all ${count(last)} bits` : `B: by ${WAYS[vs]}, ${count(bits)} bits`} />`}
          ${vs && !otherStep && (second.error ? html`<${Failure} text=${second.error} />` : html`<${Waiting} />`)}
        </div>
        ${step.missed.length > 0 && html`<section class="missed"><h2>Missed at this length</h2>
          <p class="hint">True neighbours among the ${k} nearest that ${count(bits)} bits did not bring up.</p>
          <ol class="strip">${step.missed.slice(0, 12).map((hit) => html`<li key=${hit.row}><${ItemLink} row=${hit.row} name=${hit.id} params=${passed}>
            <${Picture} store=${store} row=${hit.row} name=${hit.id} /><//>
            <span>true rank ${hit.true_rank}</span><span class="hint">${called(data.quantity)} ${two(hit.true_similarity)}</span></li>`)}</ol>
          ${step.missed.length > 12 && html`<p class="hint">and ${step.missed.length - 12} more</p>`}
        </section>`}
        ${!data.truth && store.no_truth && html`<p class="note">True ranks are not shown: ${store.no_truth}</p>`}
        <${Histogram} histogram=${step.histogram} bits=${bits} hits=${step.neighbors}
          title=${`How far all ${count(step.histogram.counted)} ${step.histogram.counted < data.items ? "sampled items" : "items"} are; the hits marked below`}
          label=${`Histogram of differing bits; hits lie between ${step.neighbors[0]?.distance} and ${Math.max(...step.neighbors.map((hit) => hit.distance))}`} />
        <${Numbers} title="The hits as a table" columns=${["rank", "id", "bits", called(data.quantity), "from", "to", "stands out", "true rank"]}
          rows=${() => step.neighbors.map((hit) => [hit.rank, hit.id, count(hit.distance), two(hit.similarity), two(hit.interval?.[0]), two(hit.interval?.[1]),
            hit.stands_out === null ? "–" : hit.stands_out ? "yes" : "no", hit.true_rank ?? "–"])} />
        <p class="keys">Keys: <kbd>←</kbd> <kbd>→</kbd> items, <kbd>r</kbd> random, <kbd>[</kbd> <kbd>]</kbd> bits. <a ...${link("/meaning", { bits })}>What do these numbers mean?</a></p>
      `}
    </div>
  </main>`;
}
