// The address is the state: pages read their settings from it and write them back.
import { createContext, useCallback, useContext, useEffect, useRef, useState } from "./dom.js";

const Route = createContext(null);
export const RouteProvider = Route.Provider;
export const useRoute = () => useContext(Route);

const read = () => ({ path: location.pathname, params: Object.fromEntries(new URLSearchParams(location.search)) });

export function href(path, params = {}) {
  const kept = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(kept).toString();
  return text ? `${path}?${text}` : path;
}

export function useAddress() {
  const [where, setWhere] = useState(read);
  useEffect(() => {
    const back = () => setWhere(read());
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, []);
  const go = useCallback((path, params, { replace = false, keep = false } = {}) => {
    history[replace ? "replaceState" : "pushState"](null, "", href(path, params));
    setWhere(read());
    if (!replace && !keep) scrollTo(0, 0);
  }, []);
  return { ...where, go };
}

// Links stay links: with a modifier key the browser does what it always does.
export function useLink() {
  const { go } = useRoute();
  return (path, params) => ({
    href: href(path, params),
    onClick: (event) => {
      if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      go(path, params);
    },
  });
}

export async function ask(url, options) {
  let answer;
  try {
    answer = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is `bilsh view` still running?");
  }
  let body = null;
  try {
    body = await answer.json();
  } catch {
    // An answer that is not JSON has nothing to tell beyond its status.
  }
  if (!answer.ok) throw new Error(body?.error ? sentence(body.error) : `The server answered ${answer.status}.`);
  return body;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const remembered = new Map();

// The answer of an address: the previous one stays on the screen until the next is there.
// While the server is still at work (202) it is asked again.
export function useAnswer(url) {
  const [state, setState] = useState(() => ({ data: remembered.get(url) ?? null, error: null, url, progress: null }));
  const round = useRef(0);
  const [again, setAgain] = useState(0);
  useEffect(() => {
    if (!url) return undefined;
    const mine = ++round.current;
    const stop = new AbortController();
    let timer = 0;
    const known = remembered.get(url);
    if (known) {
      setState({ data: known, error: null, url, progress: null });
      return undefined;
    }
    const attempt = async () => {
      try {
        const data = await ask(url, { signal: stop.signal });
        if (mine !== round.current) return;
        if (data.progress) {
          setState((old) => ({ ...old, error: null, progress: data.progress }));
          timer = setTimeout(attempt, 400);
          return;
        }
        remembered.set(url, data);
        if (remembered.size > 50) remembered.delete(remembered.keys().next().value);
        setState({ data, error: null, url, progress: null });
      } catch (error) {
        if (error.name !== "AbortError" && mine === round.current)
          setState({ data: null, error: error.message, url, progress: null });
      }
    };
    attempt();
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [url, again]);
  const retry = useCallback(() => setAgain((n) => n + 1), []);
  return { ...state, loading: Boolean(url) && state.url !== url, retry };
}

export function useKeys(keys) {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const press = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const at = event.target;
      const busy = at.closest?.("input, select, textarea, [contenteditable]");
      if (busy && !(event.key === "[" || event.key === "]" ? at.type === "range" : false)) return;
      const act = latest.current[event.key];
      if (act) {
        event.preventDefault();
        act();
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

export function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return [ref, width];
}

export const whole = (value, fallback) => (/^\d{1,15}$/.test(value ?? "") ? Number(value) : fallback);
