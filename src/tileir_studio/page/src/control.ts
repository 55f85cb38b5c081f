// One control of a formula as a form element: it says which value stands where, and the text follows.

import { css, html, LitElement, nothing, type TemplateResult } from "lit";
import { live } from "lit/directives/live.js";
import { define } from "./elements.js";
import type { ChoiceControl, Control, NumberControl, WeightsControl } from "./formula-protocol.js";
import { shared } from "./theme.js";

export interface Wish {
  path: string;
  /** Null for what holds where nothing is said. */
  value: string | null;
  /** Whether more values are to come at once. */
  dragged: boolean;
}

/** As many digits as the step of a control tells apart. */
export function numberText(value: number, step: number): string {
  const digits = Math.max(0, Math.min(8, Math.ceil(-Math.log10(step) - 1e-9)));
  return String(Number(value.toFixed(digits)));
}

export class ControlField extends LitElement {
  static override properties = { control: { attribute: false }, of: {} };

  declare control: Control;
  /** Which step it belongs to, for those who do not see where it stands. */
  declare of: string;

  static override styles = [
    ...shared,
    css`
      :host {
        display: grid;
        grid-template-columns: 5.6em minmax(0, 1fr);
        align-items: center;
        gap: 0.15em 0.5em;
        min-height: 1.9em;
      }
      .label {
        color: var(--quiet);
      }
      .given {
        color: var(--text);
      }
      .number {
        display: flex;
        flex-wrap: wrap;
        gap: 0 0.4em;
        align-items: center;
        min-width: 0;
      }
      .number [type="range"] {
        flex: 1 1 2.5em;
      }
      .number [type="number"] {
        flex: 0 1 4.7em;
      }
      .number.bare [type="number"] {
        flex-basis: 8em;
      }
      select,
      input:not([type="checkbox"], [type="range"], [type="color"]) {
        width: 100%;
        min-height: 1.75em;
        padding: 0.05em 0.35em;
        background: var(--ground);
      }
      input[type="range"] {
        min-width: 0;
        min-height: 1.5em;
        padding: 0;
        border: 0;
        background: none;
        accent-color: var(--accent);
      }
      input[type="color"] {
        width: 4em;
        min-height: 1.75em;
        padding: 1px;
      }
      input[type="checkbox"] {
        width: 1.1em;
        height: 1.1em;
        accent-color: var(--accent);
        justify-self: start;
      }
      .weights {
        display: grid;
        gap: 2px;
        overflow-x: auto;
        grid-column: 1 / -1;
      }
      .row {
        display: grid;
        grid-auto-flow: column;
        grid-auto-columns: minmax(2.9em, 1fr);
        gap: 2px;
      }
      .row input {
        text-align: right;
        font-variant-numeric: tabular-nums;
      }
    `,
  ];

  private wish(value: string | null, dragged = false): void {
    const detail: Wish = { path: this.control.path, value, dragged };
    this.dispatchEvent(new CustomEvent("value-wanted", { detail, bubbles: true, composed: true }));
  }

  private get name(): string {
    return `${this.control.label}, ${this.of}`;
  }

  protected override render(): TemplateResult | typeof nothing {
    const { control } = this;
    return html`<span class="label cut ${control.given ? "given" : ""}" title=${control.about} aria-hidden="true"
        >${control.label}</span
      >${this.field(control)}`;
  }

  private field(control: Control): TemplateResult {
    switch (control.$) {
      case "NumberControl":
        return this.number(control);
      case "ChoiceControl":
        return this.choice(control);
      case "WeightsControl":
        return this.weights(control);
      case "FlagControl":
        return html`<input
          type="checkbox"
          aria-label=${this.name}
          title=${control.about}
          .checked=${live(control.value === "yes")}
          @change=${(event: Event) => this.wish((event.target as HTMLInputElement).checked ? "yes" : "no")}
        />`;
      case "ColourControl":
        return html`<input
          type="color"
          aria-label=${this.name}
          title=${control.about}
          .value=${live(control.value)}
          @input=${(event: Event) => this.wish((event.target as HTMLInputElement).value, true)}
          @change=${(event: Event) => this.wish((event.target as HTMLInputElement).value)}
        />`;
      case "NameControl":
        return html`<input
          type="text"
          aria-label=${this.name}
          title=${control.about}
          autocomplete="off"
          spellcheck="false"
          .value=${live(control.value)}
          @change=${(event: Event) => this.wish((event.target as HTMLInputElement).value.trim() || null)}
        />`;
    }
  }

  private number(control: NumberControl): TemplateResult {
    const { low, high, step } = control;
    const slides = low !== null && high !== null && high - low <= 100_000 * step;
    const text = (event: Event) => numberText(Number((event.target as HTMLInputElement).value), step);
    return html`<span class="number ${slides ? "" : "bare"}">
      ${slides
        ? html`<input
            type="range"
            aria-label=${this.name}
            title=${control.about}
            min=${low}
            max=${high}
            step=${step}
            .value=${live(control.value)}
            @input=${(event: Event) => this.wish(text(event), true)}
            @change=${(event: Event) => this.wish(text(event))}
          />`
        : nothing}
      <input
        type="number"
        aria-label=${slides ? `${this.name}, as a number` : this.name}
        title=${control.about}
        min=${low ?? nothing}
        max=${high ?? nothing}
        step="any"
        .value=${live(control.value)}
        @change=${(event: Event) => this.wish((event.target as HTMLInputElement).value || null)}
      />
    </span>`;
  }

  private choice(control: ChoiceControl): TemplateResult {
    const words = control.words.includes(control.value) ? control.words : [control.value, ...control.words];
    const chosen = (event: Event) => {
      const { value } = event.target as HTMLSelectElement;
      this.wish(value === "" || (value === control.default && !control.given) ? null : value);
    };
    return html`<select aria-label=${this.name} title=${control.about} @change=${chosen}>
      ${words.map((word) => html`<option value=${word} .selected=${live(word === control.value)}>${word || "–"}</option>`)}
      ${control.default === "" && control.value !== "" ? html`<option value="">–</option>` : nothing}
    </select>`;
  }

  private weights(control: WeightsControl): TemplateResult {
    const changed = (row: number, column: number, event: Event) => {
      const value = Number((event.target as HTMLInputElement).value);
      const rows = control.rows.map((line) => [...line]);
      const line = rows[row];
      if (line !== undefined && Number.isFinite(value)) line[column] = value;
      this.wish(`[${rows.map((each) => each.join(" ")).join("; ")}]`);
    };
    const resized = (event: Event) => {
      const size = Number((event.target as HTMLSelectElement).value);
      this.wish(`[${resizedRows(control.rows, size).map((row) => row.join(" ")).join("; ")}]`);
    };
    const size = Math.max(control.rows.length, control.rows[0]?.length ?? 0);
    const sizes = [1, 3, 5, 7, 9, 11, 13, 15].filter((each) => each <= control.most);
    return html`<select aria-label=${`size of ${this.name}`} @change=${resized}>
        ${[...new Set([...sizes, size])].map(
          (each) => html`<option value=${each} .selected=${live(each === size)}>${each} × ${each}</option>`,
        )}
      </select>
      <div class="weights" role="group" aria-label=${this.name} title=${control.about}>
        ${control.rows.map(
          (line, row) =>
            html`<div class="row">
              ${line.map(
                (weight, column) =>
                  html`<input
                    type="number"
                    step="any"
                    aria-label=${`row ${row + 1}, column ${column + 1}, ${this.name}`}
                    .value=${live(String(weight))}
                    @change=${(event: Event) => changed(row, column, event)}
                  />`,
              )}
            </div>`,
        )}
      </div>`;
  }
}

/** A window of another size, with the old weights in its middle. */
function resizedRows(rows: number[][], size: number): number[][] {
  const height = rows.length;
  const width = rows[0]?.length ?? 0;
  const top = Math.floor((size - height) / 2);
  const left = Math.floor((size - width) / 2);
  return Array.from({ length: size }, (_, row) =>
    Array.from({ length: size }, (__, column) => rows[row - top]?.[column - left] ?? 0),
  );
}

define("tileir-control", ControlField);
