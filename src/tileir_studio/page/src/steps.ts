// The steps of a formula in layers, as the server placed them, with wires behind them that show what reads what.

import { css, html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import "./control.js";
import { define } from "./elements.js";
import type { Described, Drawing } from "./formula-protocol.js";
import { Layered, layers } from "./layered.js";
import "./step-card.js";
import type { StepFacts } from "./step-card.js";
import { shared } from "./theme.js";

export class Steps extends Layered {
  static override properties = {
    ...Layered.properties,
    view: { attribute: false },
    facts: { attribute: false },
    files: { attribute: false },
  };

  declare view: Described;
  declare facts: ReadonlyMap<string, StepFacts>;
  /** What the picture of each input is called. */
  declare files: Readonly<Record<string, string>>;

  protected override readonly track = "minmax(8.2em, 10.5em)";

  static override styles = [
    ...shared,
    layers,
    css`
      :host {
        display: block;
        overflow: auto;
        min-height: 0;
        padding: 0.7em;
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
      .file {
        flex: 1 1 3em;
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
  }

  protected override get drawing(): Drawing {
    return this.view;
  }

  private send(name: string, detail: unknown): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  private input(name: string): TemplateResult {
    return html`<div class="end picture" role="group" aria-label=${`Input ${name}`}>
      <strong class="cut" title=${name}>${name}</strong><span class="file cut quiet" title=${this.files[name] ?? ""}>${this.files[name] ?? "no picture"}</span>
      <button type="button" aria-label=${`Open a picture for ${name}`} @click=${() => this.send("picture-wanted", name)}>
        Open
      </button>
    </div>`;
  }

  protected override render() {
    const { controls } = this.view;
    return html`<div class="graph">
      ${this.wires()}
      ${controls.inputs.map(
        (name, number) => html`<div class="node" data-node=${`inputs[${number}]`}>${this.input(name)}</div>`,
      )}
      ${repeat(
        controls.steps,
        (line) => line.path,
        (line, number) =>
          html`<div class="node" data-node=${line.path}>
            <tileir-step .line=${line} .facts=${this.facts} .groups=${this.view.groups} ?last=${number === controls.steps.length - 1}></tileir-step>
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
