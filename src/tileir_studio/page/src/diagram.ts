// The flexibility diagram at one place of a formula: the possible steps there; a click inserts the chosen one.

import { css, html, LitElement, nothing, type TemplateResult } from "lit";
import { define } from "./elements.js";
import type { DiagramNode, Offered } from "./formula-protocol.js";
import { shared } from "./theme.js";

const MOST_ARGUMENTS = 5;

export class Diagram extends LitElement {
  static override properties = { offered: { attribute: false } };

  declare offered: Offered | null;

  static override styles = [
    ...shared,
    css`
      :host {
        display: block;
        overflow: auto;
        background: var(--ground);
        padding: 0.7em;
      }
      .functions {
        display: grid;
        grid-template-columns: repeat(auto-fill, minmax(8.4em, 1fr));
        gap: 0.6em;
        list-style: none;
        margin: 0;
        padding: 0;
      }
      .functions button {
        width: 100%;
        height: 7.4em;
        display: grid;
        grid-template-columns: auto 1fr;
        grid-template-rows: 1fr auto;
        align-items: start;
        gap: 0.2em;
        padding: 0.35em 0.45em;
        border-radius: 0;
        overflow: hidden;
      }
      .letters,
      .arguments {
        font-size: 0.72em;
        line-height: 1.3;
      }
      .arguments {
        text-align: right;
      }
      .arguments span {
        display: block;
      }
      .name {
        grid-column: 1 / -1;
        justify-self: center;
        font-weight: 600;
      }
      .merge button {
        height: 6.2em;
        clip-path: polygon(50% 0, 100% 100%, 0 100%);
        border: 0;
        background: var(--accent-ground);
        padding-bottom: 0.2em;
      }
      .merge button:focus-visible {
        background: var(--active);
        outline-offset: -4px;
      }
      .pass {
        display: grid;
        justify-items: center;
        margin: 0.7em 0;
        color: var(--quiet);
      }
      .pass span {
        border: 1px solid var(--line);
        border-radius: 50%;
        width: 8.5em;
        height: 8.5em;
        display: grid;
        place-content: center;
        text-align: center;
        color: var(--text);
      }
      dl {
        display: grid;
        grid-template-columns: auto 1fr;
        gap: 0.1em 0.7em;
        margin: 0.5em 0;
      }
      dd {
        margin: 0;
      }
      dt {
        font-weight: 600;
      }
    `,
  ];

  constructor() {
    super();
    this.offered = null;
  }

  private send(name: string, detail: string): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  private node(node: DiagramNode, merges: boolean): TemplateResult {
    const names = node.arguments.map((each) => each.split("=")[0] ?? "");
    const more = names.length - MOST_ARGUMENTS;
    const title = `${node.name}${node.arguments.length > 0 ? `(${node.arguments.join(", ")})` : ""}: ${node.about}`;
    return html`<li class=${merges ? "merge" : ""}>
      <button type="button" title=${title} @click=${() => this.send("function-chosen", node.name)}>
        ${merges
          ? nothing
          : html`<span class="letters" aria-hidden="true">${node.conditions.join("")}</span>
              <span class="arguments quiet" aria-hidden="true"
                >${names.slice(0, MOST_ARGUMENTS).map((name) => html`<span>${name}</span>`)}${more > 0
                  ? html`<span>and ${more} more</span>`
                  : nothing}</span
              >`}
        <span class="name"><span class="hidden">Insert </span>${node.name}</span>
      </button>
    </li>`;
  }

  protected override render() {
    const { offered } = this;
    if (offered === null) return html`<p class="quiet">The text is no formula yet.</p>`;
    return html`<label
        >A step
        <select aria-label="Place of the step" @change=${(event: Event) => this.send("path-chosen", (event.target as HTMLSelectElement).value)}>
          ${offered.places.map(
            ({ path, label }) => html`<option value=${path} .selected=${path === offered.path}>${label}</option>`,
          )}
        </select>
        can be made of</label
      >
      <h2 class="hidden">Functions of one picture</h2>
      <ul class="functions" aria-label="Functions of one picture">
        ${offered.primaries.map((node) => this.node(node, false))}
      </ul>
      <div class="pass" aria-hidden="true">↓<span>compute pass</span>↓</div>
      <ul class="functions" aria-label="Functions that merge two">
        ${offered.merges.map((node) => this.node(node, true))}
      </ul>
      <p>It can read ${offered.sources.join(", ")}${offered.implied === null ? "" : `; without a word it reads ${offered.implied}`}.</p>
      <p>It applies everywhere, or where</p>
      <dl>
        ${offered.conditions.map(({ letter, about }) => html`<dt>${letter}</dt><dd>${about}</dd>`)}
      </dl>`;
  }
}

define("tileir-diagram", Diagram);
