// Preact, its hooks and htm under one name.
import { h, render, Fragment, createContext } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { h, render, Fragment, createContext };
export * from "./vendor/hooks.js";
export const html = htm.bind(h);
