// Charts as plain SVG, drawn at the size they are shown, labels beside the lines they belong to.
import { html } from "./dom.js";
import { useWidth } from "./state.js";
import { count } from "./parts.js";

const PAD = { top: 26, right: 14, bottom: 34, left: 44 };

const line = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
const area = (upper, lower) => `${line(upper)}L${[...lower].reverse().map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}Z`;

export const logScale = (low, high) => (x) => (high > low ? Math.log(x / low) / Math.log(high / low) : 0.5);
export const linear = (low, high) => (x) => (high > low ? (x - low) / (high - low) : 0.5);
// Round numbers from 0 to the most there is, three to six of them.
export const round = (most) => {
  const unit = 10 ** Math.floor(Math.log10(most / 2));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((size) => most / size < 5 + 1e-9);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
};

// Axes, grid and names; `draw` gets the two scales in pixels.
export function Chart({ title, label, height = 280, x, y, right = PAD.right, draw, onPoint }) {
  const [ref, width] = useWidth();
  const inner = { w: Math.max(10, width - PAD.left - right), h: height - PAD.top - PAD.bottom };
  const px = (value) => PAD.left + inner.w * x.scale(value);
  const py = (value) => PAD.top + inner.h * (1 - y.scale(value));
  // Every other tick where there is no room for all.
  const every = Math.max(1, Math.ceil((x.ticks.length * 52) / inner.w));
  const point = (event) => {
    if (!onPoint) return;
    const box = event.currentTarget.getBoundingClientRect();
    onPoint((event.clientX - box.left - PAD.left) / inner.w);
  };
  return html`<figure class="chart">
    ${title && html`<figcaption>${title}</figcaption>`}
    <div ref=${ref} class="plot" style=${{ height: `${height}px` }}>
      ${width > 0 && html`<svg width=${width} height=${height} role="img" aria-label=${label} onPointerMove=${point} onPointerDown=${point}>
        ${y.ticks.map((tick) => html`<g class="tick"><line class="rule" x1=${PAD.left} x2=${PAD.left + inner.w} y1=${py(tick)} y2=${py(tick)} />
          <text x=${PAD.left - 6} y=${py(tick) + 4} text-anchor="end">${(y.show ?? String)(tick)}</text></g>`)}
        ${x.ticks.filter((_, i) => (x.ticks.length - 1 - i) % every === 0).map((tick) => html`<g class="tick">
          <line class="rule" x1=${px(tick)} x2=${px(tick)} y1=${PAD.top} y2=${PAD.top + inner.h} />
          <text x=${px(tick)} y=${PAD.top + inner.h + 15} text-anchor="middle">${(x.show ?? String)(tick)}</text></g>`)}
        <text class="name" x=${PAD.left + inner.w} y=${height - 4} text-anchor="end">${x.name}</text>
        <text class="name" x="0" y="11">${y.name}</text>
        ${draw({ px, py, inner, left: PAD.left, top: PAD.top })}
      </svg>`}
    </div>
  </figure>`;
}

export const Line = ({ points, className }) => html`<path class=${`line ${className ?? ""}`} d=${line(points)} />`;
export const Area = ({ upper, lower, className }) => html`<path class=${`area ${className ?? ""}`} d=${area(upper, lower)} />`;

// Names at the ends of lines, pushed apart where ends are close.
export function EndLabels({ ends, x, bottom }) {
  const sorted = [...ends].sort((a, b) => a.y - b.y);
  const gap = 14;
  sorted.forEach((end, i) => {
    end.at = i ? Math.max(end.y, sorted[i - 1].at + gap) : end.y;
  });
  const over = sorted.length ? Math.max(0, sorted[sorted.length - 1].at - bottom) : 0;
  return sorted.map((end) => html`<text class=${`end ${end.className}`} x=${x + 6} y=${end.at - over + 4}>${end.text}</text>`);
}

// All distances of a query as bars, those of its hits marked.
export function Histogram({ histogram, bits, hits, title, label }) {
  const { step, counts } = histogram;
  const last = counts.reduce((far, n, i) => (n ? i : far), 0);
  const shown = counts.slice(0, Math.min(counts.length, last + 2));
  const most = Math.max(1, ...shown);
  const high = shown.length * step;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => Math.round(share * high));
  return html`<${Chart} title=${title} label=${label} height=${170} right=${14}
    x=${{ scale: linear(0, high), ticks, show: count, name: `differing bits of ${count(bits)}` }}
    y=${{ scale: linear(0, most), ticks: [0, most], show: count, name: "items" }}
    draw=${({ px, py }) => html`
      ${shown.map((n, i) => n > 0 && html`<rect class="bar" x=${px(i * step) + 0.5} width=${Math.max(1, px((i + 1) * step) - px(i * step) - 1)}
        y=${Math.min(py(n), py(0) - 1)} height=${Math.max(1, py(0) - py(n))} />`)}
      ${hits.map((hit) => html`<line class=${`hit${hit.stands_out === false ? " muted" : ""}`} x1=${px(hit.distance)} x2=${px(hit.distance)} y1=${py(0) + 3} y2=${py(0) - 14} />`)}
    `} />`;
}
