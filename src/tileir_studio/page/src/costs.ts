// What the kernels of a program cost: a table, and the roofline of the machine.

import { css, html, LitElement, nothing } from "lit";
import { define } from "./elements.js";
import type { CostView, KernelView } from "./protocol.js";
import { reached, roofline } from "./roofline.js";
import { shared } from "./theme.js";
import * as units from "./units.js";

export class Costs extends LitElement {
  static override properties = { costs: { attribute: false }, busy: { type: Boolean } };

  declare costs: CostView | null;
  declare busy: boolean;

  static override styles = [
    ...shared,
    css`
      :host {
        display: block;
        overflow: auto;
        padding: 0.8em;
        background: var(--ground);
      }
      .bar {
        display: flex;
        flex-wrap: wrap;
        gap: 0.8em;
        align-items: center;
        margin-bottom: 0.6em;
      }
      .wide {
        overflow-x: auto;
      }
      .roofline {
        display: block;
        width: 100%;
        max-width: 760px;
        margin-top: 1em;
        font: 11px var(--sans);
      }
      .grid {
        stroke: var(--line);
        stroke-width: 0.6;
      }
      .roof {
        stroke: var(--text);
        stroke-width: 1.6;
      }
      .memory {
        stroke: var(--quiet);
        stroke-dasharray: 6 3;
      }
      .tick,
      .axis,
      .roof-name {
        fill: var(--quiet);
      }
      .roof-name {
        paint-order: stroke;
        stroke: var(--ground);
        stroke-width: 3;
      }
      .dot {
        fill: var(--text);
        font-weight: 600;
      }
      circle {
        stroke: var(--band, var(--accent));
        stroke-width: 2;
        fill: var(--ground);
      }
      circle.measured {
        fill: var(--band, var(--accent));
      }
      td.name {
        overflow-wrap: anywhere;
        min-width: 10em;
      }
    `,
  ];

  constructor() {
    super();
    this.costs = null;
    this.busy = false;
  }

  private row(kernel: KernelView, number: number) {
    const { measured } = kernel;
    return html`<tr>
      <td class="number">${number + 1}</td>
      <td class="name mono">${[kernel.name || "kernel", kernel.runs, kernel.counted ? "" : "not counted"].filter(Boolean).join(", ")}</td>
      <td class="number">${units.count(kernel.operations)}</td>
      <td class="number">${units.bytes(kernel.bytes_moved)}</td>
      <td class="number">${kernel.intensity.toPrecision(3)}</td>
      <td>${kernel.bound}</td>
      <td class="number">${units.seconds(kernel.predicted)}</td>
      <td class="number">${measured === null ? "–" : units.seconds(measured)}</td>
      <td class="number">${measured === null ? "–" : units.percent(kernel.predicted / measured - 1)}</td>
      <td class="number">${units.count(reached(kernel))}</td>
    </tr>`;
  }

  protected override render() {
    const { costs } = this;
    if (costs === null) return html`<p class="quiet">Costs are shown when the program compiles.</p>`;
    const measure = () => this.dispatchEvent(new CustomEvent("measure-wanted", { bubbles: true, composed: true }));
    const heads = ["operations", "moved", "op/byte", "bound by", "predicted", "measured", "off by", "op/s"];
    return html`<div class="bar">
        <button @click=${measure} ?disabled=${this.busy}>${this.busy ? "Measuring…" : "Measure"}</button>
        <span
          >${costs.target}: ${units.seconds(costs.seconds)}
          predicted${costs.assumptions.map((assumed) => `, with ${assumed}`)}${costs.measured === null ? nothing : html`, ${units.seconds(costs.measured)} measured`}</span
        >
      </div>
      <div class="wide" tabindex="0" role="region" aria-label="Table of kernels">
        <table>
          <caption class="hidden">Kernels</caption>
          <thead>
            <tr>
              <th class="number" scope="col">#</th>
              <th scope="col">kernel</th>
              ${heads.map((head) => html`<th scope="col" class=${head === "bound by" ? "" : "number"}>${head}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${costs.kernels.map((kernel, number) => this.row(kernel, number))}
          </tbody>
        </table>
      </div>
      ${roofline(costs)}`;
  }
}

define("tileir-costs", Costs);
