// Small parts that several pages share.
import { html, useEffect, useId, useRef, useState } from "./dom.js";
import { useLink } from "./state.js";

export const count = (n) => n.toLocaleString("en");
export const two = (x) => (x === null || x === undefined ? "–" : x.toFixed(2).replace("-", "−"));
export const size = (bytes) => {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (bytes >= 1000 && at < units.length - 1) {
    bytes /= 1000;
    at += 1;
  }
  return `${bytes >= 100 || at === 0 ? Math.round(bytes) : bytes.toPrecision(2)} ${units[at]}`;
};
export const time = (seconds) =>
  seconds < 1e-3 ? `${(1e6 * seconds).toFixed(0)} µs` : seconds < 1 ? `${(1e3 * seconds).toPrecision(2)} ms` : `${seconds.toFixed(1)} s`;
export const many = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;
// Names for people: "cosine 0.72", "kernel value 0.72".
export const called = (quantity) => (quantity === "kernel" ? "kernel value" : quantity ?? "distance");

// A picture with a box of its own, so that nothing moves when it arrives; its name where there is none.
export function Picture({ store, row, side = 160, name, src, eager, blocks = store.heat_maps }) {
  const [failed, setFailed] = useState(false);
  const address = src ?? `/api/v1/thumb/${row}/${side}?v=${store.fingerprint.slice(0, 8)}-${store.version}`;
  useEffect(() => setFailed(false), [address]);
  const shown = (src || store.pictures) && !failed;
  return html`<span class=${`picture${blocks ? " blocks" : ""}`}>
    ${shown
      ? html`<img src=${address} alt="" width=${side} height=${side} loading=${eager ? "eager" : "lazy"} decoding="async"
          onError=${() => setFailed(true)} />`
      : html`<span class="nameplate" aria-hidden="true">${name}</span>`}
  </span>`;
}

// Similarity and interval on an axis that all hits share, the band of random pairs behind it.
export function Whisker({ value, interval, exact, band, domain, muted }) {
  const at = (x) => 100 * Math.min(1, Math.max(0, (x - domain[0]) / (domain[1] - domain[0])));
  const [low, high] = interval;
  return html`<svg class=${`whisker${muted ? " muted" : ""}`} viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">
    <line class="axis" x1="0" x2="100" y1="6" y2="6" />
    ${band && html`<rect class="band" x=${at(band.low)} width=${Math.max(0.5, at(band.high) - at(band.low))} y="0" height="12" />`}
    <line class="interval" x1=${at(low)} x2=${Math.max(at(high), at(low) + 0.5)} y1="6" y2="6" />
    <line class="value" x1=${at(value)} x2=${at(value)} y1="1.5" y2="10.5" />
    ${exact !== null && exact !== undefined && html`<line class="exact" x1=${at(exact)} x2=${at(exact) + 0.001} y1="6" y2="6" />`}
  </svg>`;
}

// Steps of a ladder on a slider: powers of two lie evenly.
export function Steps({ label, steps, value, onChange, show = count, hint }) {
  const id = useId();
  const at = Math.max(0, steps.indexOf(value));
  return html`<div class="control">
    <div class="control-head"><label for=${id}>${label}</label><output for=${id}>${show(value)}</output></div>
    <input id=${id} type="range" min="0" max=${steps.length - 1} step="1" value=${at} aria-valuetext=${show(value)}
      disabled=${steps.length < 2} onInput=${(event) => onChange(steps[Number(event.target.value)])} />
    ${hint && html`<p class="hint">${hint}</p>`}
  </div>`;
}

export function Slider({ label, min, max, step, value, onChange, show = two, hint }) {
  const id = useId();
  return html`<div class="control">
    <div class="control-head"><label for=${id}>${label}</label><output for=${id}>${show(value)}</output></div>
    <input id=${id} type="range" min=${min} max=${max} step=${step} value=${value} aria-valuetext=${show(value)}
      onInput=${(event) => onChange(Number(event.target.value))} />
    ${hint && html`<p class="hint">${hint}</p>`}
  </div>`;
}

// One of a few, side by side; real radio buttons underneath.
export function Choice({ label, options, value, onChange, hint }) {
  const name = useId();
  return html`<fieldset class="control choice">
    <legend>${label}</legend>
    <div class="segments">
      ${options.map(([key, text, off]) => html`<label key=${key} class=${off ? "off" : ""} title=${off || undefined}>
        <input type="radio" name=${name} value=${key} checked=${key === value} disabled=${Boolean(off)}
          onChange=${() => onChange(key)} /><span>${text}</span>
      </label>`)}
    </div>
    ${hint && html`<p class="hint">${hint}</p>`}
  </fieldset>`;
}

export function Failure({ text, retry }) {
  return html`<div class="failure" role="alert"><p>${text}</p>${retry && html`<button type="button" onClick=${retry}>Try again</button>`}</div>`;
}

export function Waiting({ progress, text = "Loading …" }) {
  const share = progress?.total ? progress.done / progress.total : null;
  return html`<div class="waiting" role="status">
    <p>${progress ? `${progress.what} …` : text}</p>
    <progress aria-label=${progress ? progress.what : text} max="1" value=${share ?? undefined}></progress>
  </div>`;
}

// Numbers behind a chart, for those who would rather read them; made when they are asked for.
export function Numbers({ title, columns, rows }) {
  const [open, setOpen] = useState(false);
  return html`<details class="numbers" onToggle=${(event) => setOpen(event.target.open)}><summary>${title}</summary>
    ${open && html`<div class="scroll" tabindex="0" role="region" aria-label=${title}>
      <table><thead><tr>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>${rows().map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table>
    </div>`}</details>`;
}

// Find an item by a part of its name; a listbox that the keyboard can walk through.
export function Finder({ label, store, onPick }) {
  const id = useId();
  const [text, setText] = useState("");
  const [found, setFound] = useState(null);
  const [at, setAt] = useState(-1);
  const timer = useRef(0);
  useEffect(() => {
    clearTimeout(timer.current);
    if (!text.trim()) {
      setFound(null);
      return undefined;
    }
    const stop = new AbortController();
    timer.current = setTimeout(async () => {
      try {
        const answer = await fetch(`/api/v1/items?limit=8&q=${encodeURIComponent(text.trim().slice(0, 200))}`, { signal: stop.signal });
        const body = await answer.json();
        setFound(answer.ok ? body.items : []);
        setAt(-1);
      } catch {
        // Another letter was typed, or the server is gone: the page itself will say so.
      }
    }, 120);
    return () => stop.abort();
  }, [text]);
  const pick = (item) => {
    setText("");
    setFound(null);
    onPick(item.row);
  };
  const press = (event) => {
    if (!found?.length) return;
    if (event.key === "ArrowDown") setAt(Math.min(at + 1, found.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else if (event.key === "Enter") pick(found[Math.max(at, 0)]);
    else if (event.key === "Escape") setFound(null);
    else return;
    event.preventDefault();
  };
  return html`<div class="finder">
    <input type="search" role="combobox" aria-label=${label} placeholder=${label} autocomplete="off" spellcheck=${false}
      aria-expanded=${Boolean(found)} aria-controls=${`${id}-list`} aria-autocomplete="list"
      aria-activedescendant=${at >= 0 ? `${id}-${at}` : undefined} value=${text}
      onInput=${(event) => setText(event.target.value)} onKeyDown=${press} onBlur=${() => setTimeout(() => setFound(null), 200)} />
    <ul id=${`${id}-list`} role="listbox" aria-label="Items found" hidden=${!found}>
      ${(found ?? []).map((item, number) => html`<li key=${item.row} id=${`${id}-${number}`} role="option" aria-selected=${number === at}
        onMouseDown=${(event) => { event.preventDefault(); pick(item); }}>
        <${Picture} store=${store} row=${item.row} name="" /><span class="clip">${item.id}</span></li>`)}
      ${found && !found.length && html`<li role="option" aria-selected="false" aria-disabled="true" class="none">No item is called that.</li>`}
    </ul>
  </div>`;
}

export function ItemLink({ row, name, children, params }) {
  const link = useLink();
  return html`<a ...${link("/", { item: row, ...params })} ><span class="hidden">Neighbours of ${name} </span>${children}</a>`;
}
