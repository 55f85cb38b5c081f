// A long text of which only the rows in sight exist, each with the colour band of the statements that it came of.

import { css, html, LitElement, nothing, type PropertyValues } from "lit";
import { define } from "./elements.js";
import type { StageView } from "./protocol.js";
import { band, shared } from "./theme.js";

const ROW = 18;
const AROUND = 8;
/** Browsers draw nothing beyond some millions of pixels. */
const MOST_HEIGHT = 16_000_000;

const pieces = /(\/\/.*$|^\s*;.*$|\s#\s.*$)|(#[\w-]+(?:=\S+)?)|(\b\d[\w.]*\b)/g;

export class Listing extends LitElement {
  static override properties = {
    stage: { attribute: false },
    active: { attribute: false },
    top: { state: true },
    row: { state: true },
  };

  declare stage: StageView | null;
  /** Statements whose lines are lit up. */
  declare active: number[];
  /** The first row in sight. */
  declare top: number;
  declare row: number;

  private lines: string[] = [];
  /** For each line the number of the innermost region that it lies in, or -1. */
  private innermost = new Int32Array(0);
  private changed = new Uint8Array(0);
  private width = 0;

  static override styles = [
    ...shared,
    css`
      :host {
        display: flex;
        flex-direction: column;
        min-height: 0;
        background: var(--ground);
      }
      .scroller {
        flex: 1;
        min-height: 6em;
        overflow: auto;
        position: relative;
        font: 12px/18px var(--mono);
      }
      .all {
        position: relative;
        min-width: 100%;
      }
      .rows {
        position: absolute;
        inset: 0 auto auto 0;
        min-width: 100%;
      }
      .row {
        display: flex;
        height: 18px;
        white-space: pre;
        cursor: default;
      }
      .number {
        flex: none;
        width: 5.5em;
        padding-right: 0.8em;
        text-align: right;
        color: var(--quiet);
        border-right: 4px solid var(--band, transparent);
        margin-right: 0.7em;
      }
      .changed {
        background: var(--changed);
      }
      .active {
        background: var(--active);
      }
      .scroller:focus .chosen {
        outline: 1px solid var(--accent);
        outline-offset: -1px;
      }
      .comment {
        color: var(--quiet);
        font-style: italic;
      }
      .tag {
        color: var(--band-3);
      }
      .literal {
        color: var(--band-1);
      }
    `,
  ];

  constructor() {
    super();
    this.stage = null;
    this.active = [];
    this.top = 0;
    this.row = 0;
  }

  protected override willUpdate(changed: PropertyValues<this>): void {
    if (!changed.has("stage")) return;
    const { stage } = this;
    this.lines = stage === null ? [] : stage.text.split("\n");
    if (this.lines.at(-1) === "") this.lines.pop();
    this.width = this.lines.reduce((most, line) => Math.max(most, line.length), 0);
    this.innermost = new Int32Array(this.lines.length).fill(-1);
    this.changed = new Uint8Array(this.lines.length);
    // Regions come with outer ones first, so that those inside them overwrite their numbers.
    stage?.regions.forEach(({ first, last }, number) => this.innermost.fill(number, first, last));
    stage?.changes.forEach(([first, last]) => this.changed.fill(1, first, last));
    if (changed.get("stage")?.name !== stage?.name) this.row = 0;
    this.row = Math.min(this.row, Math.max(0, this.lines.length - 1));
  }

  protected override updated(changed: PropertyValues<this>): void {
    const rows = this.renderRoot.querySelector<HTMLElement>(".rows");
    const all = this.renderRoot.querySelector<HTMLElement>(".all");
    if (rows === null || all === null) return;
    all.style.height = `${this.height}px`;
    all.style.width = `${this.width + 8}ch`;
    rows.style.transform = `translateY(${Math.min(this.first * ROW * this.scale, this.height)}px)`;
    const before = changed.get("stage");
    if (changed.has("stage") && before?.name !== this.stage?.name) this.scroller?.scrollTo(0, 0);
    else if (changed.has("active") && this.active.length > 0 && !this.matches(":focus-within")) this.showActive();
  }

  private get scroller(): HTMLElement | null {
    return this.renderRoot.querySelector(".scroller");
  }

  private get height(): number {
    return Math.min(this.lines.length * ROW, MOST_HEIGHT);
  }

  /** Less than 1 where the text is higher than anything can be: rows then move slower than the scroller. */
  private get scale(): number {
    return this.lines.length === 0 ? 1 : this.height / (this.lines.length * ROW);
  }

  private get first(): number {
    return Math.max(0, this.top - AROUND);
  }

  private get visible(): number {
    return Math.ceil((this.scroller?.clientHeight ?? 600) / ROW);
  }

  /** Scrolls to the first line of the statements that are lit up, unless one is in sight. */
  private showActive(): void {
    const found = this.stage?.regions.filter((region) => region.statements.some((n) => this.active.includes(n))) ?? [];
    const exact = found.filter((region) => region.statements.length === 1);
    const [region] = exact.length > 0 ? exact : found;
    if (region === undefined) return;
    const inside = region.first < this.top + this.visible - 1 && region.last > this.top;
    if (!inside) this.scroller?.scrollTo({ top: Math.max(0, region.first - 2) * ROW * this.scale });
  }

  private onScroll(): void {
    const scrolled = this.scroller?.scrollTop ?? 0;
    this.top = Math.floor(scrolled / (ROW * this.scale));
  }

  private statements(line: number): number[] {
    return this.stage?.regions[this.innermost[line] ?? -1]?.statements ?? [];
  }

  private choose(row: number, send = true): void {
    this.row = Math.max(0, Math.min(row, this.lines.length - 1));
    if (this.row < this.top) this.scroller?.scrollTo({ top: this.row * ROW * this.scale });
    if (this.row >= this.top + this.visible - 1) {
      this.scroller?.scrollTo({ top: (this.row - this.visible + 2) * ROW * this.scale });
    }
    if (send) this.send("statements-chosen", this.statements(this.row));
  }

  private send(name: string, detail: unknown): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  private onKey(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const steps: Record<string, number> = {
      ArrowDown: this.row + 1,
      ArrowUp: this.row - 1,
      PageDown: this.row + this.visible - 1,
      PageUp: this.row - this.visible + 1,
      Home: 0,
      End: this.lines.length - 1,
    };
    const target = steps[event.key];
    if (target !== undefined) this.choose(target);
    else if (event.key === "Enter") this.send("statement-wanted", this.statements(this.row)[0]);
    else return;
    event.preventDefault();
  }

  private content(line: string) {
    if (line.length > 2000) return line;
    const parts = [];
    let end = 0;
    for (const match of line.matchAll(pieces)) {
      parts.push(line.slice(end, match.index));
      const kind = match[1] !== undefined ? "comment" : match[2] !== undefined ? "tag" : "literal";
      parts.push(html`<span class=${kind}>${match[0]}</span>`);
      end = match.index + match[0].length;
    }
    parts.push(line.slice(end));
    return parts;
  }

  private rowAt(line: number) {
    const statements = this.statements(line);
    const lit = statements.length > 0 && statements.some((number) => this.active.includes(number));
    const classes = ["row", `band-${band(statements)}`];
    if (this.changed[line] === 1) classes.push("changed");
    if (lit) classes.push("active");
    if (line === this.row) classes.push("chosen");
    return html`<div
      class=${classes.join(" ")}
      id="line-${line}"
      role="option"
      aria-selected=${line === this.row}
      aria-posinset=${line + 1}
      aria-setsize=${this.lines.length}
      @click=${() => this.choose(line)}
      @dblclick=${() => this.send("statement-wanted", statements[0])}
    ><span class="number" aria-hidden="true">${line + 1}</span><span>${this.content(this.lines[line] ?? "")}</span></div>`;
  }

  protected override render() {
    const last = Math.min(this.lines.length, this.top + this.visible + AROUND);
    const shown = [];
    for (let line = this.first; line < last; line++) shown.push(this.rowAt(line));
    const inside = this.row >= this.first && this.row < last;
    return html`<div
      class="scroller"
      tabindex="0"
      role="listbox"
      aria-label="${this.stage?.title ?? "Stage"}, ${this.lines.length} lines"
      aria-activedescendant=${inside && this.lines.length > 0 ? `line-${this.row}` : nothing}
      @scroll=${this.onScroll}
      @keydown=${this.onKey}
    >
      <div class="all" role="presentation"><div class="rows" role="presentation">${shown}</div></div>
    </div>`;
  }
}

define("tileir-listing", Listing);
