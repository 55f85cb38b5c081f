// The steps of a formula in layers, as the server placed them, with wires behind them that show what reads what.

import { css, html, LitElement, nothing, svg, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import "./control.js";
import { define } from "./elements.js";
import type { Described, Place } from "./formula-protocol.js";
import "./step-card.js";
import type { StepFacts } from "./step-card.js";
import { shared } from "./theme.js";

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const middle = ({ left, right }: Box) => (left + right) / 2;

export class Steps extends LitElement {
  static override properties = {
    view: { attribute: false },
    facts: { attribute: false },
    files: { attribute: false },
    paths: { state: true },
  };

  declare view: Described;
  declare facts: ReadonlyMap<string, StepFacts>;
  /** What the picture of each input is called. */
  declare files: Readonly<Record<string, string>>;
  declare paths: readonly string[];

  private watch = new ResizeObserver(() => this.draw());

  static override styles = [
    ...shared,
    css`
      :host {
        display: block;
        overflow: auto;
        min-height: 0;
        padding: 0.7em;
      }
      .graph {
        position: relative;
        display: grid;
        row-gap: 26px;
        column-gap: 0;
        justify-content: center;
      }
      svg {
        position: absolute;
        inset: 0;
        width: 100%;
        height: 100%;
        pointer-events: none;
      }
      path {
        fill: none;
        stroke: var(--quiet);
        stroke-width: 1.5;
        opacity: 0.75;
      }
      .node {
        position: relative;
        min-width: 0;
        padding: 0 6px;
        align-self: start;
      }
      .end {
        justify-self: center;
        border: 1px solid var(--line);
        border-radius: 6px;
        background: var(--raised);
        padding: 0.3em 0.6em;
        max-width: 100%;
      }
      .end strong {
        margin-right: 0.5em;
      }
      .end tileir-control {
        min-width: 13em;
      }
      .picture {
        display: inline-flex;
        gap: 0.4em;
        align-items: center;
        max-width: 100%;
      }
      .name {
        min-width: 0;
        overflow: hidden;
        text-overflow: ellipsis;
        white-space: nowrap;
      }
      .picture button {
        min-height: 1.7em;
        padding: 0 0.5em;
      }
    `,
  ];

  constructor() {
    super();
    this.facts = new Map();
    this.files = {};
    this.paths = [];
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.watch.disconnect();
  }

  protected override firstUpdated(): void {
    const graph = this.renderRoot.querySelector(".graph");
    if (graph !== null) this.watch.observe(graph);
  }

  protected override updated(): void {
    const graph = this.graph;
    graph.style.setProperty("grid-template-columns", `repeat(${Math.round(this.view.slots * 2)}, minmax(8.2em, 10.5em))`);
    for (const node of this.nodes()) {
      const place = this.view.places.find((each) => each.node === node.dataset["node"]);
      if (place === undefined) continue;
      node.style.setProperty("grid-row", String(place.layer + 1));
      node.style.setProperty("grid-column", `${Math.round(place.slot * 2) + 1} / span 2`);
      this.watch.observe(node);
    }
    requestAnimationFrame(() => this.draw());
  }

  private get graph(): HTMLElement {
    return this.renderRoot.querySelector<HTMLElement>(".graph") as HTMLElement;
  }

  private nodes(): HTMLElement[] {
    return [...this.renderRoot.querySelectorAll<HTMLElement>("[data-node]")];
  }

  /** Draws the wires between the nodes as they lie. */
  private draw(): void {
    if (!this.isConnected || this.graph === null) return;
    const origin = this.graph.getBoundingClientRect();
    const boxes = new Map<string, Box>();
    for (const node of this.nodes()) {
      const { left, right, top, bottom } = node.getBoundingClientRect();
      boxes.set(node.dataset["node"] ?? "", {
        left: left - origin.left,
        right: right - origin.left,
        top: top - origin.top,
        bottom: bottom - origin.top,
      });
    }
    const paths = this.view.wires.flatMap((wire) => this.wire(wire.source, wire.target, wire.places, boxes, origin.width));
    if (paths.join() !== this.paths.join()) this.paths = paths;
  }

  private wire(
    source: string,
    target: string,
    places: [number, number][],
    boxes: ReadonlyMap<string, Box>,
    width: number,
  ): string[] {
    const [from, to] = [boxes.get(source), boxes.get(target)];
    if (from === undefined || to === undefined) return [];
    const others = this.view.wires.filter((each) => each.target === target).map((each) => each.source);
    const sorted = others.sort((one, other) => middle(boxes.get(one) ?? from) - middle(boxes.get(other) ?? from));
    const share = (sorted.indexOf(source) + 1) / (sorted.length + 1);
    const end = to.left + (to.right - to.left) * (0.5 + (share - 0.5) * 0.6);
    let [x, y] = [middle(from), from.bottom];
    let path = `M${x},${y}`;
    const go = (nextX: number, nextY: number) => {
      const bend = Math.max(8, (nextY - y) / 2);
      path += `C${x},${y + bend} ${nextX},${nextY - bend} ${nextX},${nextY}`;
      [x, y] = [nextX, nextY];
    };
    for (const [layer, slot] of places.slice(1, -1)) {
      const row = this.row(layer, boxes);
      const passed = ((slot + 0.5) / this.view.slots) * width;
      go(passed, row.top);
      path += `L${passed},${row.bottom}`;
      y = row.bottom;
    }
    go(end, to.top);
    return [path];
  }

  private row(layer: number, boxes: ReadonlyMap<string, Box>): { top: number; bottom: number } {
    const inside = this.view.places
      .filter((place: Place) => place.layer === layer)
      .flatMap(({ node }) => boxes.get(node) ?? []);
    return {
      top: Math.min(...inside.map(({ top }) => top)),
      bottom: Math.max(...inside.map(({ bottom }) => bottom)),
    };
  }

  private send(name: string, detail: unknown): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  private input(name: string): TemplateResult {
    return html`<div class="end picture" role="group" aria-label=${`Input ${name}`}>
      <strong>${name}</strong><span class="name quiet" title=${this.files[name] ?? ""}>${this.files[name] ?? "no picture"}</span>
      <button type="button" aria-label=${`Open a picture for ${name}`} @click=${() => this.send("picture-wanted", name)}>
        Open
      </button>
    </div>`;
  }

  protected override render() {
    const { controls } = this.view;
    return html`<div class="graph">
      <svg aria-hidden="true">${this.paths.map((path) => svg`<path d=${path}></path>`)}</svg>
      ${controls.inputs.map(
        (name, number) => html`<div class="node" data-node=${`inputs[${number}]`}>${this.input(name)}</div>`,
      )}
      ${repeat(
        controls.steps,
        (line) => line.path,
        (line, number) =>
          html`<div class="node" data-node=${line.path}>
            <tileir-step .line=${line} .facts=${this.facts} ?last=${number === controls.steps.length - 1}></tileir-step>
          </div>`,
      )}
      <div class="node" data-node="results">
        <div class="end" role="group" aria-label="Results">
          ${controls.results.length > 1 || controls.steps.length > 0
            ? controls.results.map(
                (control) => html`<tileir-control .control=${control} .of=${"what is returned"}></tileir-control>`,
              )
            : nothing}
        </div>
      </div>
    </div>`;
  }
}

define("tileir-steps", Steps);
