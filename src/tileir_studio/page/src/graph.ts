// The data flow: a layered drawing, and the same as a list for those who do not see it.

import { css, html, LitElement, nothing, svg } from "lit";
import { define } from "./elements.js";
import type { GraphView, NodeView, WireView } from "./protocol.js";
import { band, shared } from "./theme.js";

const WIDTH = 168;
const LINE = 16;
const HEIGHT = 42;
const ACROSS = 186;
const DOWN = 76;
const MARGIN = 10;
const MOST_LETTERS = 24;

function cut(text: string): string {
  return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text;
}

export class Graph extends LitElement {
  static override properties = { graph: { attribute: false }, active: { attribute: false } };

  declare graph: GraphView | null;
  declare active: number[];

  static override styles = [
    ...shared,
    css`
      :host {
        display: block;
        overflow: auto;
        background: var(--ground);
      }
      svg {
        display: block;
        font: 12px var(--sans);
      }
      path {
        fill: none;
        stroke: var(--quiet);
        stroke-width: 1.2;
      }
      marker path {
        fill: var(--quiet);
        stroke: none;
      }
      rect {
        fill: var(--raised);
        stroke: var(--band, var(--line));
        stroke-width: 1.5;
      }
      .input rect {
        rx: 20;
      }
      .output rect {
        stroke-width: 3;
      }
      .exchange rect {
        stroke-dasharray: 5 3;
      }
      .active rect {
        fill: var(--active);
      }
      text {
        fill: var(--text);
        text-anchor: middle;
      }
      .name {
        font-weight: 600;
      }
      .kind {
        fill: var(--quiet);
        font-size: 11px;
      }
      details {
        padding: 0.5em 0.8em;
        border-top: 1px solid var(--line);
      }
      .list button {
        min-height: 1.7em;
        padding: 0 0.4em;
      }
    `,
  ];

  constructor() {
    super();
    this.graph = null;
    this.active = [];
  }

  private choose(node: NodeView): void {
    const detail = node.statement === null ? [] : [node.statement];
    this.dispatchEvent(new CustomEvent("statements-chosen", { detail, bubbles: true, composed: true }));
  }

  /** Room for a third line, where values are shared out to ranks. */
  private get more(): number {
    return this.graph?.nodes.some(({ cut }) => cut !== "") === true ? LINE : 0;
  }

  private get height(): number {
    return HEIGHT + this.more;
  }

  private get down(): number {
    return DOWN + this.more;
  }

  private place(node: NodeView): [number, number] {
    return [MARGIN + node.slot * ACROSS + WIDTH / 2, MARGIN + node.layer * this.down];
  }

  private box(node: NodeView) {
    const [x, y] = this.place(node);
    const statements = node.statement === null ? [] : [node.statement];
    const lit = statements.some((number) => this.active.includes(number)) ? "active" : "";
    return svg`<g class="${node.kind} ${node.exchange === "" ? "" : "exchange"} ${lit} band-${band(statements)}" @click=${() => this.choose(node)}>
      <title>${[`${node.name}: ${node.label}`, node.cut, node.exchange].filter((part) => part !== "").join("\n")}</title>
      <rect x=${x - WIDTH / 2} y=${y} width=${WIDTH} height=${this.height} rx="4"></rect>
      <text class="name" x=${x} y=${y + 17}>${cut(node.name)}</text>
      <text class="kind" x=${x} y=${y + 33}>${cut(node.label)}</text>
      ${node.cut === "" ? nothing : svg`<text class="kind" x=${x} y=${y + 33 + LINE}>${cut(node.cut)}</text>`}
    </g>`;
  }

  /** A wire goes straight through the layers that it passes, and bends between them. */
  private wire({ places }: WireView) {
    const [first, ...rest] = places.map(([layer, slot]) => [MARGIN + slot * ACROSS + WIDTH / 2, MARGIN + layer * this.down] as const);
    if (first === undefined) return svg``;
    let [x, y] = [first[0], first[1] + this.height];
    const parts = [`M ${x} ${y}`];
    rest.forEach(([u, v], number) => {
      const end = number === rest.length - 1;
      const stop = end ? v - 3 : v;
      const bend = (stop - y) / 2;
      parts.push(`C ${x} ${y + bend}, ${u} ${stop - bend}, ${u} ${stop}`);
      if (!end) parts.push(`L ${u} ${v + this.height}`);
      [x, y] = [u, v + this.height];
    });
    return svg`<path d=${parts.join(" ")} marker-end="url(#arrow)"></path>`;
  }

  private entry(node: NodeView) {
    const reads = node.reads.length === 0 ? nothing : html`, reads ${node.reads.join(", ")}`;
    return html`<li>
      <button class="mono" @click=${() => this.choose(node)}>${node.name}</button>
      <span>${node.label}${node.cut === "" ? nothing : html`, ${node.cut}`}${reads}${
        node.exchange === "" ? nothing : html`: ${node.exchange}`
      }</span>
    </li>`;
  }

  protected override render() {
    const { graph } = this;
    if (graph === null) return html`<p class="quiet">The data flow is shown when the program compiles.</p>`;
    const width = graph.slots * ACROSS + 2 * MARGIN;
    const height = graph.layers * this.down + 2 * MARGIN;
    return html`<svg aria-hidden="true" width=${width} height=${height} viewBox="0 0 ${width} ${height}">
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M 0 0 L 8 4 L 0 8 z"></path>
          </marker>
        </defs>
        ${graph.wires.map((wire) => this.wire(wire))}${graph.nodes.map((node) => this.box(node))}
      </svg>
      ${graph.omitted > 0 ? html`<p class="quiet">and ${graph.omitted} more values</p>` : nothing}
      <details>
        <summary>As a list</summary>
        <ol class="list" aria-label="Values of the data flow">${graph.nodes.map((node) => this.entry(node))}</ol>
      </details>`;
  }
}

define("tileir-graph", Graph);
