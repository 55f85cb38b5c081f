// The inputs of a program: for each one a type for random numbers, a number, or a file.

import { css, html, LitElement, nothing } from "lit";
import { define } from "./elements.js";
import type { Fault, InputView } from "./protocol.js";
import { Refused } from "./connection.js";
import { upload } from "./server.js";
import { shared } from "./theme.js";

const UPLOAD = "upload:";

export class Inputs extends LitElement {
  static override properties = {
    inputs: { attribute: false },
    values: { attribute: false },
    files: { attribute: false },
    faults: { state: true },
  };

  declare inputs: InputView[];
  declare values: Record<string, string>;
  /** What uploads are called, by the name of the upload; begins with those that were there from the start. */
  declare files: Record<string, string>;
  declare faults: Fault[];

  static override styles = [
    ...shared,
    css`
      :host {
        display: block;
        overflow: auto;
      }
      fieldset {
        border: 0;
        margin: 0;
        padding: 0.5em 0.8em;
      }
      legend {
        padding: 0;
        font-weight: 600;
        font-size: 0.86rem;
        float: left;
        width: 100%;
        margin-bottom: 0.3em;
      }
      .row {
        clear: both;
        display: grid;
        grid-template-columns: minmax(5em, 1fr) minmax(9em, 2fr) auto;
        gap: 0.5em;
        align-items: center;
        margin-bottom: 0.3em;
      }
      label.cut {
        display: block;
      }
      input {
        width: 100%;
      }
      .file {
        border: 1px solid var(--line);
        border-radius: 4px;
        background: var(--raised);
        padding: 0.2em 0.55em;
        min-height: 2em;
        cursor: pointer;
        position: relative;
      }
      .file:focus-within {
        outline: 2px solid var(--accent);
      }
    `,
  ];

  constructor() {
    super();
    this.inputs = [];
    this.values = {};
    this.files = {};
    this.faults = [];
  }

  private send(name: string, value: string): void {
    const detail = { ...this.values, [name]: value };
    this.dispatchEvent(new CustomEvent("values-changed", { detail, bubbles: true, composed: true }));
  }

  private async give(name: string, event: Event): Promise<void> {
    const [file] = (event.target as HTMLInputElement).files ?? [];
    if (file === undefined) return;
    this.faults = [];
    try {
      const found = await upload(file);
      this.files = { ...this.files, [found.name]: `${file.name}, ${found.type}` };
      this.send(name, UPLOAD + found.name);
    } catch (error) {
      this.faults = error instanceof Refused ? error.faults : [];
    }
  }

  private one(input: InputView) {
    const value = this.values[input.name] ?? input.guess;
    const id = `value-${input.name}`;
    const given = value.startsWith(UPLOAD);
    const file = this.files[value.slice(UPLOAD.length)] ?? "the given file";
    const dims = input.dims === null ? "" : `[${input.dims.join(", ")}]`;
    return html`<div class="row">
      <label for=${id} class="mono cut" title="${input.name}${dims}">${input.name}${dims}</label>
      ${given
        ? html`<span id=${id} class="cut" tabindex="-1" title=${file}>${file}</span>`
        : html`<input
            id=${id}
            class="mono"
            spellcheck="false"
            .value=${value}
            title="A type such as f32[64, 64] for random numbers, or a number"
            @change=${(event: Event) => this.send(input.name, (event.target as HTMLInputElement).value.trim())}
          />`}
      ${given
        ? html`<button @click=${() => this.send(input.name, input.guess)} aria-label="Take back the file for ${input.name}">
            Take back
          </button>`
        : html`<label class="file"
            >File…<input
              class="hidden"
              type="file"
              accept=".npy,image/*"
              aria-label="File for ${input.name}"
              @change=${(event: Event) => this.give(input.name, event)}
          /></label>`}
    </div>`;
  }

  protected override render() {
    return html`<fieldset>
        <legend>Inputs</legend>
        ${this.inputs.map((input) => this.one(input))}
        ${this.inputs.length === 0 ? html`<p class="quiet">none</p>` : nothing}
      </fieldset>
      <tileir-faults .faults=${this.faults}></tileir-faults>`;
  }
}

define("tileir-inputs", Inputs);
