// What all components share: form elements, tables, and the colour bands of statements.

import { css, unsafeCSS } from "lit";

export const BANDS = 8;

/** The name of the colour band of some statements: one has its own, several share one. */
export function band(statements: readonly number[]): string {
  const [first] = statements;
  if (first === undefined) return "none";
  return statements.length > 1 ? "many" : String(first % BANDS);
}

const bands = [...Array(BANDS).keys(), "many"].map(
  (name) => css`
    .band-${unsafeCSS(name)} {
      --band: var(--band-${unsafeCSS(name)});
    }
  `,
);

export const shared = [
  css`
    :host,
    *,
    *::before,
    *::after {
      box-sizing: border-box;
    }
    button,
    select,
    input {
      font: inherit;
      color: inherit;
    }
    button,
    select,
    input:not([type="checkbox"], [type="file"]) {
      background: var(--raised);
      border: 1px solid var(--line);
      border-radius: 4px;
      padding: 0.2em 0.55em;
      min-height: 2em;
      max-width: 100%;
    }
    select {
      text-overflow: ellipsis;
      min-width: 0;
    }
    button {
      cursor: pointer;
    }
    button:hover:not(:disabled) {
      border-color: var(--accent);
    }
    button:disabled {
      color: var(--quiet);
      cursor: default;
    }
    button.main {
      background: var(--accent);
      border-color: var(--accent);
      color: var(--ground);
    }
    :focus-visible {
      outline: 2px solid var(--accent);
      outline-offset: 1px;
    }
    label {
      display: inline-flex;
      gap: 0.4em;
      align-items: center;
      max-width: 100%;
    }
    h2 {
      font-size: 0.86rem;
      font-weight: 600;
      margin: 0;
    }
    table {
      border-collapse: collapse;
      width: 100%;
    }
    th,
    td {
      text-align: left;
      padding: 0.2em 0.6em 0.2em 0;
      border-bottom: 1px solid var(--line);
      vertical-align: top;
    }
    th {
      font-weight: 600;
      color: var(--quiet);
    }
    td.number,
    th.number {
      text-align: right;
      font-variant-numeric: tabular-nums;
      white-space: nowrap;
    }
    .quiet {
      color: var(--quiet);
    }
    .cut {
      min-width: 0;
      overflow: hidden;
      text-overflow: ellipsis;
      white-space: nowrap;
    }
    .mono {
      font-family: var(--mono);
      font-size: 0.92em;
    }
    .hidden {
      position: absolute;
      width: 1px;
      height: 1px;
      overflow: hidden;
      clip-path: inset(50%);
      white-space: nowrap;
    }
  `,
  ...bands,
];
