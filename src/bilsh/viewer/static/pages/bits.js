// How many bits: what codes of each length find on these very data, and which one to take.
import { html } from "../dom.js";
import { useAnswer, useRoute } from "../state.js";
import { Choice, count, Failure, Numbers, size, Slider, time, Waiting } from "../parts.js";
import { Chart, EndLabels, Line, linear, logScale, round } from "../charts.js";

const WAYS = { hamming: "bits", asymmetric: "real values", reranked: "re-ranked" };
const BY = { hamming: "ranked by differing bits", asymmetric: "ranked by the query's real values", reranked: "re-ranked by the vectors, which must be kept" };

export function Bits({ store }) {
  const { params, go } = useRoute();
  const by = WAYS[params.by] ? params.by : "asymmetric";
  const wanted = Number(params.target);
  const target = wanted >= 0.5 && wanted <= 0.99 ? Math.round(100 * wanted) / 100 : 0.9;
  const { data, error, progress, retry } = useAnswer("/api/v1/curve");
  const set = (change) => go("/bits", { by: params.by, target: params.target, ...change }, { replace: true });
  const place = data ? data.targets.findIndex((t) => Math.abs(t - target) < 1e-9) : -1;
  const reached = data ? data.picks[by][place] : null;
  const pick = data ? data.points[reached ?? data.best[by]] : null;
  if (!data && !error)
    return html`<main><h1>How many bits?</h1><${Waiting} progress=${progress} text="Measuring codes on your data …" />
      <p class="hint">Both encoders are drawn at every length and asked for neighbours that are known exactly. Seconds for vectors; a folder of images is described first.</p></main>`;
  return html`<main class="two">
    <aside aria-label="What is wanted">
      <${Slider} label="Wanted recall" min=${0.5} max=${0.99} step=${0.01} value=${target} onChange=${(value) => set({ target: value })}
        show=${(value) => `${Math.round(100 * value)} %`} hint="Share of the 10 true nearest neighbours that a search finds." />
      <${Choice} label="Ranked by" value=${by} onChange=${(key) => set({ by: key })} options=${Object.entries(WAYS)} hint=${`Hits are ${BY[by]}.`} />
      ${pick && html`<${Advice} data=${data} pick=${pick} by=${by} reached=${reached !== null} target=${target} store=${store} />`}
    </aside>
    <div class="main">
      <h1>${!pick ? "How many bits?" : reached !== null
        ? `${count(pick.n_bits)} bits of ${pick.encoder} codes find ${Math.round(100 * pick.expected[by])}\u00a0% of the nearest`
        : `No code that was tried finds ${Math.round(100 * target)}\u00a0%; the best finds ${Math.round(100 * pick.expected[by])}\u00a0%`}</h1>
      ${error && html`<${Failure} text=${error} retry=${retry} />`}
      ${data && html`
        <p class="summary"><span>${count(data.queries)} queries among ${data.rows === data.of ? `all ${count(data.rows)} items` : `${count(data.rows)} of ${count(data.of)} items`}</span>
          <span>an item has ${size(data.item_bytes)}; no code is longer</span></p>
        <${Recall} data=${data} by=${by} target=${target} pick=${pick} />
        ${data.exact_seconds > 0 && html`<${Times} data=${data} by=${by} />`}
        <${Numbers} title="All that was measured, as a table" columns=${["encoder", "bits", "bytes", "GB per million", "by bits", "by real values", "re-ranked", "time of a query"]}
          rows=${() => data.points.map((p) => [p.encoder, count(p.n_bits), count(p.n_bytes), (p.n_bytes / 1000).toPrecision(2), p.at_10.hamming.toFixed(3), p.at_10.asymmetric.toFixed(3), p.at_10.reranked.toFixed(3),
            p.times ? time(p.times[by] * data.exact_seconds) : "–"])} />`}
    </div>
  </main>`;
}

function Advice({ data, pick, by, reached, target, store }) {
  const source = store.kind === "store" ? store.source ?? "x.npy" : store.kind === "folder" ? `${store.name}/` : store.name;
  const keep = by === "reranked" ? " --keep-vectors" : "";
  return html`<section class="advice" aria-live="polite"><h2>${reached ? "Take" : "The best of them"}</h2>
    <p><strong class=${pick.encoder}>${pick.encoder} codes of ${count(pick.n_bits)} bits</strong></p>
    <dl><dt>recall@10</dt><dd>${pick.expected[by].toFixed(2)} of ${target.toFixed(2)} wanted</dd>
      <dt>each</dt><dd>${size(pick.n_bytes)}; an item has ${size(data.item_bytes)}</dd>
      <dt>a million</dt><dd>${size(1e6 * pick.n_bytes)}</dd>
      ${pick.times && html`<dt>a query</dt><dd>${time(pick.times[by] * data.exact_seconds)} among ${count(data.rows)} here; comparing the vectors takes ${time(data.exact_seconds)}</dd>`}</dl>
    <p class="hint">To make them:</p><pre class="scroll" tabindex="0"><code>bilsh encode ${source} -o store/ --bits ${pick.n_bits} --method ${pick.encoder}${keep}</code></pre>
  </section>`;
}

const series = (data) => ["angle", "kernel"].map((encoder) => [encoder, data.points.filter((p) => p.encoder === encoder)]);
const xOf = (data) => {
  const lengths = [...new Set(data.points.map((p) => p.n_bits))].sort((a, b) => a - b);
  return { scale: logScale(lengths[0], lengths[lengths.length - 1]), ticks: lengths, show: count, name: "bits", lengths };
};

function Recall({ data, by, target, pick }) {
  const x = xOf(data);
  return html`<${Chart} height=${320} right=${132} title=${`Recall@10 against bits, ${BY[by]}; the other rankings thin`} label="Recall against bits for angle and kernel codes"
    x=${x} y=${{ scale: linear(0, 1), ticks: [0, 0.25, 0.5, 0.75, 1], show: (t) => t.toFixed(2), name: "recall@10" }}
    draw=${({ px, py, inner, left, top }) => html`
      <line class="line target" x1=${left} x2=${left + inner.w} y1=${py(target)} y2=${py(target)} />
      <text class="end" x=${left + 4} y=${py(target) - 5}>wanted ${target.toFixed(2)}</text>
      ${series(data).map(([encoder, points]) => Object.keys(WAYS).map((way) => html`<${Line} key=${encoder + way}
        points=${points.map((p) => [px(p.n_bits), py(p.expected[way])])} className=${`${encoder} ${way === by ? "" : "thin"} ${way}`} />`))}
      ${series(data).map(([encoder, points]) => points.map((p) => html`<circle class=${`dot ${encoder}`} cx=${px(p.n_bits)} cy=${py(p.expected[by])} r="3.5"><title>${`${encoder}, ${count(p.n_bits)} bits: ${p.expected[by].toFixed(3)}`}</title></circle>`))}
      <circle class="ring" cx=${px(pick.n_bits)} cy=${py(pick.expected[by])} r="8" />
      <${EndLabels} x=${left + inner.w} bottom=${top + inner.h} ends=${series(data).flatMap(([encoder, points]) => Object.keys(WAYS).map((way) => ({
        y: py(points[points.length - 1].expected[way]), text: way === by ? `${encoder}, ${WAYS[way]}` : `${encoder}, ${WAYS[way]}`, className: `${encoder}${way === by ? " strong" : ""}` })))} />
    `} />`;
}

function Times({ data, by }) {
  const x = xOf(data);
  const times = data.points.filter((p) => p.times).map((p) => p.times[by] * data.exact_seconds * 1e3);
  const most = Math.max(...times, data.exact_seconds * 1e3) * 1.1;
  return html`<${Chart} height=${200} right=${132} title="Time of one query on this machine, beside comparing all vectors" label="Time of a query against bits"
    x=${x} y=${{ scale: linear(0, most), ticks: round(most), show: (t) => String(Number(t.toPrecision(2))), name: "ms" }}
    draw=${({ px, py, inner, left, top }) => html`
      <line class="line target" x1=${left} x2=${left + inner.w} y1=${py(data.exact_seconds * 1e3)} y2=${py(data.exact_seconds * 1e3)} />
      <text class="end" x=${left + 4} y=${py(data.exact_seconds * 1e3) - 5}>exact vectors</text>
      ${series(data).map(([encoder, points]) => html`<${Line} points=${points.filter((p) => p.times).map((p) => [px(p.n_bits), py(p.times[by] * data.exact_seconds * 1e3)])} className=${encoder} />`)}
      <${EndLabels} x=${left + inner.w} bottom=${top + inner.h} ends=${series(data).filter(([, points]) => points.length && points[points.length - 1].times).map(([encoder, points]) => ({
        y: py(points[points.length - 1].times[by] * data.exact_seconds * 1e3), text: `${encoder} codes`, className: `${encoder} strong` }))} />
    `} />`;
}
