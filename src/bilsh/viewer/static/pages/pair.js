// Two items beside each other, and how the estimate of their likeness narrows as more bits are read.
import { html, useEffect, useState } from "../dom.js";
import { href, useAnswer, useKeys, useLink, useRoute, whole } from "../state.js";
import { called, count, Failure, Finder, Numbers, Picture, two, Waiting } from "../parts.js";
import { Area, Chart, Line, linear, logScale } from "../charts.js";

function Side({ letter, item, row, store, onPick, link }) {
  return html`<div class="side">
    <h2>${letter}</h2>
    <${Picture} store=${store} row=${row} side=${640} name=${item?.id ?? ""} eager=${true} />
    <p class="who"><a class="clip" ...${link("/", { item: row })}>${item?.id ?? " "}</a>${item?.caption && html`<span class="hint">${item.caption}</span>`}</p>
    <${Finder} label=${`Choose ${letter} by name`} store=${store} onPick=${onPick} />
  </div>`;
}

export function Pair({ store }) {
  const { params, go } = useRoute();
  const link = useLink();
  const a = Math.min(whole(params.a, 0), Math.max(0, store.items - 1));
  const b = Math.min(whole(params.b, 1), Math.max(0, store.items - 1));
  const [blinking, setBlinking] = useState(false);
  const [front, setFront] = useState(true);
  const { data, error, retry } = useAnswer(store.items ? href("/api/v1/pair", { a, b }) : null);
  const choose = (change) => go("/pair", { a, b, ...change }, { keep: true });
  useKeys({ b: () => setBlinking(!blinking), x: () => choose({ a: b, b: a }) });
  useEffect(() => {
    if (!blinking) return undefined;
    const timer = setInterval(() => setFront((now) => !now), 700);
    return () => clearInterval(timer);
  }, [blinking]);
  if (!store.items) return html`<main><p class="empty">This store is empty: there are no pairs.</p></main>`;
  // Nothing is laid out before it is known how much room the words above it take.
  if (!data && !error) return html`<main><h1>Two items</h1><${Waiting} /></main>`;
  const last = data?.ladder[data.ladder.length - 1];
  const name = called(data?.quantity);
  const apart = last?.interval && data.background && last.interval[0] > data.background.high;
  return html`<main class="pair">
    <h1>${!data ? "Two items" : last.similarity === null ? `They differ in ${count(last.distance)} of ${count(last.bits)} bits`
      : `Their ${name} is ${two(last.similarity)}, somewhere from ${two(last.interval[0])} to ${two(last.interval[1])}`}</h1>
    <p class="summary" aria-live="polite">${data && last.similarity !== null && html`
      <span>${Math.round(100 * data.confidence)} % interval from ${count(last.bits)} bits, ${count(last.distance)} of which differ</span>
      ${data.exact !== null && html`<span class="good">true ${name} ${two(data.exact)}</span>`}
      ${data.background && html`<span>${apart ? "more alike than random pairs" : "as alike as random pairs may be"}</span>`}`}</p>
    ${error && html`<${Failure} text=${error} retry=${retry} />`}
    <div class="two-up">
      ${blinking
        ? html`<div class="side blink"><h2>${front ? "A" : "B"}</h2><${Picture} store=${store} row=${front ? a : b} side=${640} name=${(front ? data?.a : data?.b)?.id ?? ""} eager=${true} />
            <p class="who"><span class="clip">${(front ? data?.a : data?.b)?.id ?? ""}</span></p></div>`
        : html`<${Side} letter="A" item=${data?.a} row=${a} store=${store} link=${link} onPick=${(row) => choose({ a: row })} />
            <${Side} letter="B" item=${data?.b} row=${b} store=${store} link=${link} onPick=${(row) => choose({ b: row })} />`}
      <div class="figure">
        <div class="row"><button type="button" aria-pressed=${blinking} onClick=${() => setBlinking(!blinking)}>${blinking ? "Stop blinking" : "Blink"}</button>
          <button type="button" onClick=${() => choose({ a: b, b: a })}>Swap</button></div>
        ${data && last.similarity !== null && html`<${Cone} data=${data} name=${name} />`}
        ${data && last.similarity === null && html`<p class="note">These codes were made elsewhere and tell no similarity: bits are all there is.</p>`}
        ${data && data.exact === null && data.no_truth && html`<p class="note">${data.no_truth}</p>`}
      </div>
    </div>
    ${data && html`<${Numbers} title="The estimates as a table" columns=${["bits", "differing", name, "from", "to"]}
      rows=${() => data.ladder.map((step) => [count(step.bits), count(step.distance), two(step.similarity), two(step.interval?.[0]), two(step.interval?.[1])])} />`}
    <p class="keys">Keys: <kbd>b</kbd> blink, <kbd>x</kbd> swap. The interval is that of two items chosen beforehand; among the best of many, look at <a ...${link("/", { item: a })}>Neighbours</a>.</p>
  </main>`;
}

function Cone({ data, name }) {
  const steps = data.ladder;
  const lows = steps.map((step) => step.interval[0]);
  const low = Math.min(data.quantity === "kernel" ? 0 : -1, Math.min(...lows, data.background?.low ?? 0));
  const first = steps[0].bits, final = steps[steps.length - 1].bits;
  const ticks = data.quantity === "kernel" ? [0, 0.25, 0.5, 0.75, 1] : [-1, -0.5, 0, 0.5, 1];
  return html`<${Chart} height=${300} title=${`More bits, a narrower interval`} label=${`Estimated ${name} against bits, with its interval`}
    x=${{ scale: logScale(first, final), ticks: steps.map((step) => step.bits), show: count, name: "bits read" }}
    y=${{ scale: linear(low, 1), ticks, show: (t) => two(t), name }} right=${20}
    draw=${({ px, py, inner, left }) => html`
      ${data.background && html`<rect class="band" x=${left} width=${inner.w} y=${py(data.background.high)} height=${py(data.background.low) - py(data.background.high)} />
        <text class="end" x=${left + inner.w - 4} y=${py(data.background.high) + 14} text-anchor="end">${Math.round(100 * data.background.share)} % of random pairs</text>`}
      <${Area} upper=${steps.map((s) => [px(s.bits), py(s.interval[1])])} lower=${steps.map((s) => [px(s.bits), py(s.interval[0])])} className="cone" />
      <${Line} points=${steps.map((s) => [px(s.bits), py(s.similarity)])} className="accent" />
      ${steps.map((s) => html`<circle class="dot accent" cx=${px(s.bits)} cy=${py(s.similarity)} r="3" />`)}
      ${data.exact !== null && html`<line class="line truth" x1=${left} x2=${left + inner.w} y1=${py(data.exact)} y2=${py(data.exact)} />
        <text class="end truth" x=${left + 6} y=${py(data.exact) - 6}>true ${two(data.exact)}</text>`}
    `} />`;
}
