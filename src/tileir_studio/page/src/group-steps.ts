// The steps of a group in layers, below what they read from outside of it.

import { css, html, type TemplateResult } from "lit";
import { define } from "./elements.js";
import type { Drawing, GroupControls, GroupDrawing } from "./formula-protocol.js";
import { Layered, layers } from "./layered.js";
import type { StepFacts } from "./step-card.js";
import { shared } from "./theme.js";

export class GroupSteps extends Layered {
  static override properties = {
    ...Layered.properties,
    line: { attribute: false },
    facts: { attribute: false },
    groups: { attribute: false },
  };

  declare line: GroupControls;
  declare facts: ReadonlyMap<string, StepFacts>;
  /** The drawings of all groups of the formula. */
  declare groups: readonly GroupDrawing[];

  protected override readonly track = "minmax(6.6em, 1fr)";

  static override styles = [
    ...shared,
    layers,
    css`
      :host {
        display: block;
        overflow-x: auto;
        padding: 0.5em;
        background: var(--panel);
        border-radius: 0 0 6px 6px;
      }
      .outside {
        justify-self: center;
        width: fit-content;
        margin: auto;
        padding: 0 0.5em;
        border: 1px dashed var(--line);
        border-radius: 1em;
        color: var(--quiet);
      }
    `,
  ];

  private get own(): GroupDrawing | undefined {
    return this.groups.find(({ path }) => path === this.line.path);
  }

  protected override get drawing(): Drawing {
    return this.own ?? { places: [], wires: [], layers: 0, slots: 1 };
  }

  protected override render(): TemplateResult {
    const { steps } = this.line;
    return html`<div class="graph">
      ${this.wires()}
      ${(this.own?.outside ?? []).map(
        ({ node, label }) => html`<div class="node" data-node=${node}><div class="outside">${label}</div></div>`,
      )}
      ${steps.map(
        (each, number) =>
          html`<div class="node" data-node=${each.path}>
            <tileir-step .line=${each} .facts=${this.facts} .groups=${this.groups} ?last=${number === steps.length - 1}></tileir-step>
          </div>`,
      )}
    </div>`;
  }
}

define("tileir-group-steps", GroupSteps);
