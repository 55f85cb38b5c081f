// What is wrong with a program, each fault with its line and carets below the place.

import { css, html, LitElement, nothing } from "lit";
import { define } from "./elements.js";
import { fromServer } from "./offsets.js";
import type { Fault } from "./protocol.js";
import { shared } from "./theme.js";

const MOST = 50;

/** The line of a fault with carets below the characters that it is about. */
function excerpt(text: string, fault: Fault): string {
  if (fault.start === null || fault.stop === null) return "";
  const place = fromServer(text);
  const start = place(fault.start);
  const begin = text.lastIndexOf("\n", start - 1) + 1;
  const found = text.indexOf("\n", start);
  const end = found < 0 ? text.length : found;
  const left = Math.max(begin, start - 28);
  const right = Math.min(end, left + 100);
  const width = Math.max(1, Math.min(place(fault.stop), right) - start);
  const blanks = text.slice(left, start).replace(/[^\t]/g, " ");
  return `${text.slice(left, right)}\n${blanks}${"^".repeat(width)}`;
}

export class Faults extends LitElement {
  static override properties = { text: {}, faults: { attribute: false } };

  declare text: string;
  declare faults: Fault[];

  static override styles = [
    ...shared,
    css`
      :host {
        display: block;
        overflow: auto;
        max-height: 16em;
      }
      ol {
        list-style: none;
        margin: 0;
        padding: 0;
      }
      li {
        border-left: 4px solid var(--fault);
        background: var(--fault-ground);
        padding: 0.4em 0.7em;
        margin-bottom: 2px;
      }
      button {
        background: none;
        border: 0;
        padding: 0;
        min-height: 0;
        text-align: left;
        color: var(--fault);
        font-weight: 600;
      }
      pre {
        margin: 0.3em 0 0;
        font: 12px/1.35 var(--mono);
        overflow-x: auto;
      }
      p {
        margin: 0.2em 0 0;
      }
    `,
  ];

  constructor() {
    super();
    this.text = "";
    this.faults = [];
  }

  private one(fault: Fault) {
    const place = fault.line === null ? "" : `${fault.line}:${fault.column} `;
    const title = `${place}${fault.code}`;
    const show = () =>
      this.dispatchEvent(new CustomEvent("place-wanted", { detail: fault.start, bubbles: true, composed: true }));
    return html`<li>
      ${fault.start === null ? html`<strong>${title}</strong>` : html`<button @click=${show}>${title}</button>`}
      ${fault.message}
      ${fault.start === null ? nothing : html`<pre>${excerpt(this.text, fault)}</pre>`}
      ${fault.notes.map((note) => html`<p class="quiet">note: ${note}</p>`)}
    </li>`;
  }

  protected override render() {
    const more = this.faults.length - MOST;
    return html`<div role="status" aria-live="polite">
      ${this.faults.length === 0
        ? html`<span class="hidden">No faults</span>`
        : html`<ol aria-label="Faults">
            ${this.faults.slice(0, MOST).map((fault) => this.one(fault))}
            ${more > 0 ? html`<li>and ${more} more</li>` : nothing}
          </ol>`}
    </div>`;
  }
}

define("tileir-faults", Faults);
