// The stages of a program: a list to choose from, and the text or JSON of one.

import { css, html, LitElement } from "lit";
import { define } from "./elements.js";
import "./listing.js";
import type { StageEntry, StageView } from "./protocol.js";
import { save } from "./server.js";
import { shared } from "./theme.js";

export type Form = "text" | "json";

export class Stages extends LitElement {
  static override properties = {
    stages: { attribute: false },
    active: { attribute: false },
    label: {},
    chosen: {},
    form: {},
    stage: { attribute: false },
    problem: {},
    every: { state: true },
  };

  declare stages: StageEntry[];
  declare active: number[];
  declare label: string;
  declare chosen: string;
  declare form: Form;
  /** Whether passes that changed nothing are listed. */
  declare every: boolean;
  declare stage: StageView | null;
  declare problem: string;

  static override styles = [
    ...shared,
    css`
      :host {
        display: flex;
        flex-direction: column;
        min-height: 0;
      }
      .bar {
        display: flex;
        flex-wrap: wrap;
        gap: 0.4em 0.8em;
        align-items: center;
        padding: 0.4em 0.8em;
        border-bottom: 1px solid var(--line);
      }
      tileir-listing {
        flex: 1;
      }
      p {
        padding: 0 0.8em;
        color: var(--fault);
      }
    `,
  ];

  constructor() {
    super();
    this.stages = [];
    this.active = [];
    this.label = "";
    this.chosen = "";
    this.form = "text";
    this.every = false;
    this.stage = null;
    this.problem = "";
  }

  private choose(name: string, form: Form = this.form): void {
    this.dispatchEvent(new CustomEvent("stage-chosen", { detail: [name, form], bubbles: true, composed: true }));
  }

  private get listed(): StageEntry[] {
    return this.stages.filter(({ changed, name }) => this.every || changed || name === this.chosen);
  }

  private step(by: number): void {
    const { listed } = this;
    const next = listed[listed.findIndex(({ name }) => name === this.chosen) + by];
    if (next !== undefined) this.choose(next.name);
  }

  private save(): void {
    if (this.stage !== null) save(`${this.stage.name}.${this.form === "json" ? "json" : "txt"}`, this.stage.text);
  }

  private get choices() {
    const groups = Map.groupBy(this.listed, ({ group }) => group);
    return [...groups].map(
      ([group, entries]) =>
        html`<optgroup label=${group}>
          ${entries.map(
            ({ name, title, changed }) =>
              html`<option value=${name} ?selected=${name === this.chosen}>${title}${changed ? "" : " (no change)"}</option>`,
          )}
        </optgroup>`,
    );
  }

  protected override render() {
    const value = (event: Event) => (event.target as HTMLSelectElement).value;
    return html`<div class="bar" role="group" aria-label="Stage ${this.label}">
        <label
          >Stage
          <select @change=${(event: Event) => this.choose(value(event))}>
            ${this.choices}
          </select></label
        >
        <button @click=${() => this.step(-1)} aria-label="Stage before">←</button>
        <button @click=${() => this.step(1)} aria-label="Stage after">→</button>
        <label
          ><input
            type="checkbox"
            .checked=${this.every}
            @change=${(event: Event) => (this.every = (event.target as HTMLInputElement).checked)}
          />all passes</label
        >
        <label
          >as
          <select @change=${(event: Event) => this.choose(this.chosen, value(event) as Form)}>
            <option value="text">text</option>
            <option value="json">JSON</option>
          </select></label
        >
        <button @click=${this.save} ?disabled=${this.stage === null}>Save</button>
      </div>
      ${this.problem === "" ? "" : html`<p role="status">${this.problem}</p>`}
      <tileir-listing .stage=${this.stage} .active=${this.active}></tileir-listing>`;
  }
}

define("tileir-stages", Stages);
