// A step, or a group of them, as a fieldset: what it calls, what it reads, and its parameters.

import { css, html, LitElement, nothing, svg, type PropertyValues, type TemplateResult } from "lit";
import "./control.js";
import { define } from "./elements.js";
import { type Control, type GroupDrawing, isStep, type Line, type StepControls } from "./formula-protocol.js";
import "./group-steps.js";
import { shared } from "./theme.js";

export interface Action {
  action: string;
  path: string;
  target?: string;
  function?: string;
}

/** What was found out about a step beside its text. */
export interface StepFacts {
  thumbnail: ImageData | null;
  /** A short text on its kernels and their times. */
  cost: string;
}

const SIGNS = {
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
  add: "M8 3v10M3 8h10",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  remove: "M4 4l8 8M12 4l-8 8",
};

function siblingPath(path: string, offset: number): string {
  return path.replace(/\[(\d+)\]$/, (_, number: string) => `[${Number(number) + offset}]`);
}

export function lineName(line: Line): string {
  const number = line.number ?? Number(/\[(\d+)\]$/.exec(line.path)?.[1]) + 1;
  return isStep(line) ? `step ${number} ${line.function.value}` : `group ${number}`;
}

export class StepCard extends LitElement {
  static override properties = {
    line: { attribute: false },
    facts: { attribute: false },
    groups: { attribute: false },
    last: { type: Boolean },
  };

  declare line: Line;
  declare facts: ReadonlyMap<string, StepFacts>;
  /** The drawings of all groups of the formula. */
  declare groups: readonly GroupDrawing[];
  /** Whether it is the last of its group. */
  declare last: boolean;

  static override styles = [
    ...shared,
    css`
      :host {
        display: block;
      }
      fieldset {
        border: 1px solid var(--line);
        border-radius: 6px;
        background: var(--raised);
        margin: 0;
        padding: 0;
        min-width: 0;
        box-shadow: 0 1px 2px rgb(0 0 0 / 6%);
      }
      fieldset:focus-within {
        border-color: var(--accent);
      }
      .head {
        display: flex;
        align-items: center;
        gap: 0.35em;
        padding: 0.25em 0.35em 0.25em 0.6em;
        border-bottom: 1px solid var(--line);
      }
      .number {
        color: var(--quiet);
        font-variant-numeric: tabular-nums;
      }
      .head strong {
        flex: 1;
      }
      .head button {
        min-height: 1.6em;
        min-width: 1.75em;
        padding: 0;
        border-color: transparent;
        background: none;
        color: var(--quiet);
      }
      .head svg {
        display: block;
        width: 1em;
        height: 1em;
        margin: auto;
        fill: none;
        stroke: currentcolor;
        stroke-width: 1.5;
      }
      .head button:hover:not(:disabled) {
        color: var(--text);
        border-color: var(--line);
      }
      .body {
        display: flex;
        flex-wrap: wrap;
        gap: 0.15em 0.6em;
        padding: 0.35em 0.6em 0.45em;
      }
      .controls {
        flex: 1 1 12em;
        display: grid;
        gap: 0.15em;
        align-content: start;
        min-width: 0;
      }
      .wide,
      .cost,
      details {
        flex-basis: 100%;
        min-width: 0;
      }
      canvas {
        margin: 0 0 auto auto;
        width: 64px;
        height: auto;
        max-height: 64px;
        object-fit: contain;
        border: 1px solid var(--line);
        border-radius: 3px;
        background: var(--panel);
      }
      .cost {
        font-size: 0.82em;
        color: var(--quiet);
        margin: 0.25em 0 0;
      }
      details {
        margin-top: 0.2em;
      }
      summary {
        color: var(--quiet);
        font-size: 0.88em;
        cursor: pointer;
      }
      details[open] summary {
        margin-bottom: 0.2em;
      }
    `,
  ];

  private ask(action: Action): void {
    this.dispatchEvent(new CustomEvent("edit-wanted", { detail: action, bubbles: true, composed: true }));
  }

  private button(sign: keyof typeof SIGNS, label: string, work: () => void, disabled = false): TemplateResult {
    const title = `${label} ${lineName(this.line)}`;
    return html`<button type="button" aria-label=${title} title=${title} ?disabled=${disabled} @click=${work}>
      <svg viewBox="0 0 16 16" aria-hidden="true">${svg`<path d=${SIGNS[sign]}></path>`}</svg>
    </button>`;
  }

  private head(title: string): TemplateResult {
    const { path } = this.line;
    const move = (by: number) => () => this.ask({ action: "move", path, target: siblingPath(path, by) });
    const number = Number(/\[(\d+)\]$/.exec(path)?.[1]) + 1;
    const below = () =>
      this.dispatchEvent(
        new CustomEvent("place-chosen", {
          detail: { path: siblingPath(path, 1), where: `below ${lineName(this.line)}` },
          bubbles: true,
          composed: true,
        }),
      );
    return html`<div class="head">
      <span class="number" aria-hidden="true">${number}</span><strong class="cut" aria-hidden="true" title=${title}>${title}</strong>
      ${this.button("up", "Move up", move(-1), path.endsWith("[0]"))}
      ${this.button("down", "Move down", move(2), this.last)}
      ${this.button("add", "Add a step below", below)}
      ${this.button("copy", "Duplicate", () => this.ask({ action: "duplicate", path }))}
      ${this.button("remove", "Remove", () => this.ask({ action: "remove", path }))}
    </div>`;
  }

  private field(control: Control): TemplateResult {
    return html`<tileir-control .control=${control} .of=${lineName(this.line)}></tileir-control>`;
  }

  private step(step: StepControls): TemplateResult {
    const further = [
      step.condition.kind,
      ...step.condition.parts,
      step.merge.function,
      ...step.merge.parts,
      step.name,
    ];
    const facts = this.facts.get(step.path);
    const said = further.some((control) => control.given && control !== step.name);
    return html`<fieldset>
      <legend class="hidden">${lineName(step)}</legend>
      ${this.head(step.name.value || step.function.value)}
      <div class="body">
        <div class="controls" title=${step.about}>
          ${[step.function, ...step.sources].map((control) => this.field(control))}
        </div>
        <canvas aria-hidden="true" ?hidden=${!facts?.thumbnail}></canvas>
        <div class="controls wide">
          ${step.parameters.map((control) => this.field(control))}
          ${step.boundary === null ? nothing : this.field(step.boundary)}
        </div>
        <details ?open=${said}>
          <summary>where, with, name</summary>
          <div class="controls">${further.map((control) => this.field(control))}</div>
        </details>
        ${facts?.cost ? html`<p class="cost">${facts.cost}</p>` : nothing}
      </div>
    </fieldset>`;
  }

  protected override render(): TemplateResult {
    const { line } = this;
    if (isStep(line)) return this.step(line);
    return html`<fieldset>
      <legend class="hidden">${lineName(line)}</legend>
      ${this.head("repeat")}
      <div class="body">
        <div class="controls">${this.field(line.count)}${this.field(line.limit)}</div>
        <canvas aria-hidden="true" ?hidden=${!this.facts.get(line.path)?.thumbnail}></canvas>
      </div>
      <tileir-group-steps .line=${line} .facts=${this.facts} .groups=${this.groups}></tileir-group-steps>
    </fieldset>`;
  }

  protected override updated(changed: PropertyValues<this>): void {
    if (!changed.has("facts") && !changed.has("line")) return;
    const picture = this.facts.get(this.line.path)?.thumbnail;
    const canvas = this.renderRoot.querySelector("canvas");
    if (!picture || canvas === null) return;
    [canvas.width, canvas.height] = [picture.width, picture.height];
    canvas.getContext("2d")?.putImageData(picture, 0, 0);
  }
}

define("tileir-step", StepCard);
