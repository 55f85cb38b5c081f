// What a formula became: its steps and kernels as tables, and its buffers as bars from their first launch to their last.

import { css, html, LitElement, nothing, svg } from "lit";
import { define } from "./elements.js";
import type { BufferLife, Explanation, Kernel } from "./formula-protocol.js";
import { shared } from "./theme.js";
import * as units from "./units.js";

const ROW = 18;
const NAMES = 90;
const WIDTH = 520;

function named(kernel: Kernel): string {
  return [kernel.name, ...(kernel.runs > 1 ? [`${kernel.runs} times`] : []), ...kernel.conditions].join(", ");
}

export class Lives extends LitElement {
  static override properties = { found: { attribute: false } };

  declare found: Explanation | null;

  static override styles = [
    ...shared,
    css`
      :host {
        display: block;
        overflow: auto;
        padding: 0.6em 0.8em;
        background: var(--ground);
      }
      h2 {
        font-size: 0.86rem;
        margin: 1em 0 0.3em;
      }
      h2:first-of-type {
        margin-top: 0;
      }
      table {
        font-size: 0.92em;
      }
      td.name {
        overflow-wrap: anywhere;
      }
      svg {
        display: block;
        width: 100%;
        max-width: 60em;
        font: 11px var(--sans);
      }
      text {
        fill: var(--text);
      }
      .launch {
        stroke: var(--line);
      }
      .temporary {
        fill: var(--band-0);
      }
      .input {
        fill: var(--band-2);
      }
      .output {
        fill: var(--band-1);
      }
      .constant {
        fill: var(--quiet);
      }
    `,
  ];

  constructor() {
    super();
    this.found = null;
  }

  private lives(buffers: readonly BufferLife[], launches: number) {
    const unit = (WIDTH - NAMES) / Math.max(1, launches);
    const height = buffers.length * ROW + ROW;
    return html`<svg viewBox="0 0 ${WIDTH} ${height}" aria-hidden="true">
      ${Array.from({ length: launches }, (_, number) => {
        const x = NAMES + number * unit;
        return svg`<line class="launch" x1=${x} x2=${x} y1=${ROW - 4} y2=${height}></line>
          ${unit > 14 ? svg`<text x=${x + unit / 2} y="11" text-anchor="middle">${number}</text>` : nothing}`;
      })}
      ${buffers.map(
        (each, row) =>
          svg`<text x=${NAMES - 6} y=${(row + 1) * ROW + 12} text-anchor="end">${each.name.slice(0, 14)}</text>
            <rect class=${each.role} rx="2" x=${NAMES + each.first * unit + 1} y=${(row + 1) * ROW + 3}
              width=${Math.max(2, (each.last - each.first + 1) * unit - 2)} height=${ROW - 6}></rect>`,
      )}
    </svg>`;
  }

  protected override render() {
    const { found } = this;
    if (found === null) return html`<p class="quiet">The kernels are shown once the formula has run.</p>`;
    const { buffers, temporary_bytes: apart, peak_bytes: peak } = found.dispatch;
    const time = (seconds: number | null) => (seconds === null ? "" : units.seconds(seconds));
    return html`<h2>Kernels, on ${found.device}</h2>
      <table>
        <thead>
          <tr>
            <th class="number">#</th>
            <th>kernel</th>
            <th>steps</th>
            <th class="number">moves</th>
            <th class="number">predicted</th>
            <th class="number">measured</th>
          </tr>
        </thead>
        <tbody>
          ${found.kernels.map(
            (kernel, number) =>
              html`<tr>
                <td class="number">${number}</td>
                <td class="name mono">${named(kernel)}</td>
                <td>${kernel.steps.map((path) => path.replace(/steps\[(\d+)\]/g, (_, at) => `${Number(at) + 1}`)).join(", ")}</td>
                <td class="number">${units.bytes(kernel.moved_bytes)}</td>
                <td class="number">${time(kernel.seconds)}</td>
                <td class="number">${time(kernel.measured)}</td>
              </tr>`,
          )}
        </tbody>
      </table>
      <h2>Buffers, from their first launch to their last</h2>
      ${this.lives(buffers, found.kernels.length)}
      <p class="quiet">
        Temporaries take ${units.bytes(peak)}${apart > peak ? ` instead of ${units.bytes(apart)}` : ""}.
      </p>
      <table>
        <thead>
          <tr>
            <th>buffer</th>
            <th>role</th>
            <th>type</th>
            <th class="number">bytes</th>
            <th class="number">launches</th>
            <th class="number">at</th>
          </tr>
        </thead>
        <tbody>
          ${buffers.map(
            (each) =>
              html`<tr>
                <td class="mono">${each.name}</td>
                <td>${each.role}</td>
                <td class="mono">${each.dtype}[${each.shape.join(", ")}]</td>
                <td class="number">${units.bytes(each.nbytes)}</td>
                <td class="number">${each.first}–${each.last}</td>
                <td class="number">${each.offset === null ? "" : `${each.block}:${each.offset}`}</td>
              </tr>`,
          )}
        </tbody>
      </table>`;
  }
}

define("tileir-lives", Lives);
