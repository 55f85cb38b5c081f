// Nodes in layers, as the server placed them, with wires behind them that show what reads what.

import { css, html, LitElement, svg, type TemplateResult } from "lit";
import type { Drawing, Place } from "./formula-protocol.js";

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const middle = ({ left, right }: Box) => (left + right) / 2;

export const layers = css`
  .graph {
    position: relative;
    display: grid;
    row-gap: 26px;
    column-gap: 0;
    justify-content: center;
    min-width: min-content;
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
`;

/** What has an element of the class `graph`, in which nodes are those with the attribute `data-node`. */
export abstract class Layered extends LitElement {
  static override properties = { paths: { state: true } };

  declare paths: readonly string[];

  private watch = new ResizeObserver(() => this.draw());

  protected abstract get drawing(): Drawing;

  /** How wide half a node is. */
  protected abstract readonly track: string;

  constructor() {
    super();
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
    graph.style.setProperty("grid-template-columns", `repeat(${Math.round(this.drawing.slots * 2)}, ${this.track})`);
    for (const node of this.nodes()) {
      const place = this.drawing.places.find((each) => each.node === node.dataset["node"]);
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
    const paths = this.drawing.wires.flatMap((wire) => this.wire(wire.source, wire.target, wire.places, boxes, origin.width));
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
    const others = this.drawing.wires.filter((each) => each.target === target).map((each) => each.source);
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
      const passed = ((slot + 0.5) / this.drawing.slots) * width;
      go(passed, row.top);
      path += `L${passed},${row.bottom}`;
      y = row.bottom;
    }
    go(end, to.top);
    return [path];
  }

  private row(layer: number, boxes: ReadonlyMap<string, Box>): { top: number; bottom: number } {
    const inside = this.drawing.places
      .filter((place: Place) => place.layer === layer)
      .flatMap(({ node }) => boxes.get(node) ?? []);
    return {
      top: Math.min(...inside.map(({ top }) => top)),
      bottom: Math.max(...inside.map(({ bottom }) => bottom)),
    };
  }

  protected wires(): TemplateResult {
    return html`<svg aria-hidden="true">${this.paths.map((path) => svg`<path d=${path}></path>`)}</svg>`;
  }
}
