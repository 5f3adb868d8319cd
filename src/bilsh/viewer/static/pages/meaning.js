// Similarity, differing bits, interval: each told by the others, for any length of code.
import { html } from "../dom.js";
import { href, useAnswer, useRoute, whole } from "../state.js";
import { called, Choice, count, Failure, Numbers, Slider, Steps, two, Waiting } from "../parts.js";
import { Area, Chart, Line, linear, round } from "../charts.js";

const LENGTHS = Array.from({ length: 13 }, (_, i) => 2 ** (i + 4));

export function Meaning({ store }) {
  const { params, go } = useRoute();
  const kernel = params.kernel === "gaussian" || (!params.kernel && store.codes === "kernel") ? "gaussian" : "angle";
  const thresholds = params.thresholds === "random" ? "random" : "zero";
  const asked = whole(params.bits, store.bits ?? 1024);
  const bits = LENGTHS.reduce((best, length) => (Math.abs(Math.log(length / asked)) < Math.abs(Math.log(best / asked)) ? length : best));
  const at = params.at === undefined ? 0.7 : Math.min(1, Math.max(kernel === "angle" ? -1 : 0.01, Number(params.at) || 0));
  const { data, error, retry } = useAnswer(href("/api/v1/meaning", { bits, kernel, thresholds: kernel === "gaussian" ? thresholds : undefined }));
  const set = (change) => go("/meaning", { kernel: params.kernel, thresholds: params.thresholds, bits: params.bits, at: params.at, ...change }, { replace: true });
  const name = called(kernel === "angle" ? "cosine" : "kernel");
  const told = data && between(data, at);
  return html`<main class="two">
    <aside aria-label="Which code">
      <${Choice} label="Codes" value=${kernel} options=${[["angle", "angle"], ["gaussian", "kernel"]]} onChange=${(key) => set({ kernel: key, at: undefined })}
        hint=${kernel === "angle" ? "Signs of projections: bits tell the angle." : "Thresholded waves: bits tell the Gaussian kernel of the distance."} />
      ${kernel === "gaussian" && html`<${Choice} label="Thresholds" value=${thresholds} options=${[["zero", "zero"], ["random", "random"]]} onChange=${(key) => set({ thresholds: key })}
        hint=${thresholds === "zero" ? "Our default." : "As in the paper."} />`}
      <${Steps} label="Bits" steps=${LENGTHS} value=${bits} onChange=${(value) => set({ bits: value })} hint="Four times the bits, half the interval." />
      <${Slider} label=${`If the ${name} is`} min=${kernel === "angle" ? -1 : 0.01} max=${1} step=${0.01} value=${at} onChange=${(value) => set({ at: value })} />
    </aside>
    <div class="main">
      <h1>${told ? `${name[0].toUpperCase()}${name.slice(1)} ${two(at)}: about ${count(Math.round(told.fraction * bits))} of ${count(bits)} bits differ` : "What a distance means"}</h1>
      ${error && html`<${Failure} text=${error} retry=${retry} />`}
      ${!data && !error && html`<${Waiting} />`}
      ${told && html`<p class="summary" aria-live="polite">
          <span>from ${count(Math.round(told.seenLow * bits))} to ${count(Math.round(told.seenHigh * bits))} in 95 of 100 codes</span>
          <span class="good">who counts ${count(Math.round(told.fraction * bits))} knows the ${name} to ${two(told.low)} – ${two(told.high)}</span></p>
        <${Law} data=${data} at=${at} told=${told} name=${name} onPick=${(value) => set({ at: value.toFixed(2) })} />
        <p class="hint">Bits of dense projections are independent, and this is their exact law. Structured projections come close; a store's own calibration counts what they share.
          Shaded: where 95 of 100 codes lie. Thick bar: the interval of who counts so many.
          ${data.bounds && ` Dashed: ${thresholds === "random" ? "the paper's bounds (Theorem 1)" : "bounds that hold for zero thresholds"}; solid: the truth.`}</p>
        <${Numbers} title="The law as a table" columns=${[name, "share of bits", "bits", "interval of the estimate"]}
          rows=${() => data.similarity.filter((_, i) => i % 4 === 0).map((s, i) => [two(s), data.fraction[4 * i].toFixed(3), count(Math.round(data.fraction[4 * i] * bits)), `${two(data.low[4 * i])} – ${two(data.high[4 * i])}`])} />`}
    </div>
  </main>`;
}

// Values at a similarity between two points of the law.
function between(data, at) {
  const s = data.similarity;
  let i = s.findIndex((value) => value <= at + 1e-9);
  i = Math.max(1, i < 0 ? s.length - 1 : i);
  const share = Math.min(1, Math.max(0, (s[i - 1] - at) / (s[i - 1] - s[i])));
  const mix = (values) => values[i - 1] + share * (values[i] - values[i - 1]);
  return { fraction: mix(data.fraction), low: mix(data.low), high: mix(data.high), seenLow: mix(data.observed.low), seenHigh: mix(data.observed.high) };
}

function Law({ data, at, told, name, onPick }) {
  const angle = data.law === "angle";
  const low = angle ? -1 : 0;
  const top = angle ? 1 : 0.5;
  return html`<${Chart} height=${360} right=${20} title=${`The more alike, the fewer bits differ`} label=${`Share of differing bits against ${name}`}
    onPoint=${(share) => share >= 0 && share <= 1 && onPick(Math.min(1, Math.max(angle ? -1 : 0.01, low + share * (1 - low))))}
    x=${{ scale: linear(low, 1), ticks: angle ? [-1, -0.5, 0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1], show: (t) => two(t), name }}
    y=${{ scale: linear(0, top), ticks: round(top), show: (t) => two(t), name: "share of differing bits" }}
    draw=${({ px, py, left, top: high, inner }) => html`
      <${Area} className="cone" upper=${data.similarity.map((s, i) => [px(s), py(Math.min(top, data.observed.high[i]))])} lower=${data.similarity.map((s, i) => [px(s), py(data.observed.low[i])])} />
      ${data.bounds && ["lower", "upper"].map((end) => html`<${Line} className="bound" points=${data.similarity.map((s, i) => [px(s), py(Math.min(top, data.bounds[end][i]))])} />`)}
      <${Line} className="accent" points=${data.similarity.map((s, i) => [px(s), py(data.fraction[i])])} />
      <line class="line target" x1=${px(at)} x2=${px(at)} y1=${high} y2=${high + inner.h} />
      <line class="line truth" x1=${left} x2=${px(at)} y1=${py(told.fraction)} y2=${py(told.fraction)} />
      <line class="whole" x1=${px(told.low)} x2=${px(told.high)} y1=${py(told.fraction)} y2=${py(told.fraction)} />
      <circle class="dot accent" cx=${px(at)} cy=${py(told.fraction)} r="5" />
    `} />`;
}
