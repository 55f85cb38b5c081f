// The results of a run: dtype and shape, numbers, and a picture where there is one.

import { css, html, LitElement, nothing, type PropertyValues } from "lit";
import { define } from "./elements.js";
import type { ResultView, RunView } from "./protocol.js";
import { picture } from "./server.js";
import { shared } from "./theme.js";
import * as units from "./units.js";

export class Results extends LitElement {
  static override properties = {
    run: { attribute: false },
    busy: { type: Boolean },
    live: { type: Boolean },
    pictures: { state: true },
  };

  declare run: RunView | null;
  declare busy: boolean;
  /** Whether the program runs on each change. */
  declare live: boolean;
  declare pictures: Record<string, string>;

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
        margin-bottom: 0.8em;
      }
      img {
        display: block;
        max-width: 100%;
        height: auto;
        border: 1px solid var(--line);
        image-rendering: pixelated;
      }
      pre {
        font: 12px/1.4 var(--mono);
        overflow-x: auto;
      }
      section {
        margin-bottom: 1.2em;
      }
    `,
  ];

  constructor() {
    super();
    this.run = null;
    this.busy = false;
    this.live = false;
    this.pictures = {};
  }

  protected override updated(changed: PropertyValues<this>): void {
    if (changed.has("run")) void this.fetchPictures();
  }

  private async fetchPictures(): Promise<void> {
    const { run } = this;
    const names = Object.entries(run?.pictures ?? {});
    const found = await Promise.all(names.map(async ([name, id]) => [name, await picture(id)] as const)).catch(() => []);
    if (run !== this.run) return;
    Object.values(this.pictures).forEach((address) => URL.revokeObjectURL(address));
    this.pictures = Object.fromEntries(found);
  }

  private one(result: ResultView) {
    const { least, most, mean } = result;
    const address = result.picture === null ? undefined : this.pictures[result.picture];
    const range = least === null || most === null || mean === null;
    return html`<section>
      <h2 class="mono">${result.name}: ${result.type}</h2>
      ${range
        ? nothing
        : html`<p class="quiet">
            from ${units.number(least)} to ${units.number(most)}, mean ${units.number(mean)}
          </p>`}
      ${address === undefined ? nothing : html`<img src=${address} alt="${result.name} as a picture, 0 black, 1 white" />`}
      <pre tabindex="0" role="region" aria-label="Numbers of ${result.name}">${result.shown}</pre>
    </section>`;
  }

  private send(name: string, detail: unknown): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  protected override render() {
    const { run } = this;
    return html`<div class="bar">
        <button class="main" ?disabled=${this.busy} @click=${() => this.send("run-wanted", null)}>
          ${this.busy ? "Running…" : "Run"}
        </button>
        ${this.busy ? html`<button @click=${() => this.send("stop-wanted", null)}>Stop</button>` : nothing}
        <label
          ><input
            type="checkbox"
            .checked=${this.live}
            @change=${(event: Event) => this.send("live-changed", (event.target as HTMLInputElement).checked)}
          />on each change</label
        >
        <span role="status">${run === null ? nothing : html`${units.seconds(run.seconds)} on ${run.device}`}</span>
      </div>
      ${run === null ? html`<p class="quiet">Ctrl+Enter in the program runs it, too.</p>` : nothing}
      ${run?.results.map((result) => this.one(result))}`;
  }
}

define("tileir-results", Results);
