// The designer: a formula as controls, as a drawing and as text, and what it makes of pictures. The text is the model.

import { css, html, nothing } from "lit";
import "./add-step.js";
import type { AddStep } from "./add-step.js";
import type { Wish } from "./control.js";
import { Design } from "./design.js";
import "./diagram.js";
import "./editor.js";
import type { Editor } from "./editor.js";
import { define } from "./elements.js";
import "./faults.js";
import type { Preview } from "./formula-protocol.js";
import "./lives.js";
import "./picture.js";
import type { Visible } from "./pixels.js";
import { save } from "./save.js";
import type { Action } from "./step-card.js";
import "./steps.js";
import "./tabs.js";
import { shared } from "./theme.js";
import * as units from "./units.js";

const PANES = [
  { name: "text", title: "Text" },
  { name: "diagram", title: "Diagram" },
  { name: "kernels", title: "Kernels and buffers" },
  { name: "export", title: "Take away" },
];

const FORMS = [
  { form: "png", title: "Picture (PNG)" },
  { form: "python", title: "Python script" },
];

export class Designer extends Design {
  static override styles = [
    ...shared,
    css`
      :host {
        display: grid;
        grid-template-columns: minmax(27em, 6fr) minmax(0, 7fr);
        gap: 1px;
        background: var(--line);
        min-height: 0;
      }
      section {
        display: flex;
        flex-direction: column;
        min-height: 0;
        min-width: 0;
        background: var(--panel);
      }
      .bar {
        display: flex;
        align-items: center;
        gap: 0.4em;
        padding: 0.35em 0.6em;
        border-bottom: 1px solid var(--line);
      }
      tileir-steps {
        flex: 1;
      }
      .right {
        display: grid;
        grid-template-rows: minmax(14em, 6fr) minmax(11em, 5fr);
        gap: 1px;
        min-height: 0;
        min-width: 0;
      }
      .picture .bar {
        flex-wrap: wrap;
      }
      .choices {
        flex: 1 1 18em;
        display: flex;
        justify-content: flex-end;
        gap: 0.4em;
        min-width: 0;
      }
      .choices label:last-child {
        min-width: 0;
      }
      tileir-picture {
        flex: 1;
      }
      tileir-diagram,
      tileir-editor,
      tileir-lives {
        flex: 1;
      }
      .pane {
        flex: 1;
        min-height: 0;
        display: flex;
        flex-direction: column;
      }
      .pane[hidden] {
        display: none;
      }
      .tabs {
        border-bottom: 1px solid var(--line);
        padding: 0 0.4em;
      }
      .export {
        padding: 0.9em;
        display: flex;
        flex-wrap: wrap;
        gap: 0.5em;
        align-content: start;
        background: var(--ground);
        flex: 1;
      }
      .export p {
        width: 100%;
        margin: 0.3em 0 0;
      }
      @media (min-width: 1700px) {
        .right {
          grid-template-rows: minmax(0, 1fr);
          grid-template-columns: minmax(0, 5fr) minmax(0, 4fr);
        }
      }
      @media (max-width: 1000px) {
        :host {
          grid-template-columns: minmax(0, 1fr);
        }
        .right {
          grid-template-rows: 70vh 60vh;
        }
      }
    `,
  ];

  private showPlace(start: number): void {
    this.pane = "text";
    this.renderRoot.querySelector<Editor>("tileir-editor")?.show(start);
  }

  protected override render() {
    return html`<section
        aria-label="Formula"
        @value-wanted=${(event: CustomEvent<Wish>) => this.set(event.detail)}
        @edit-wanted=${(event: CustomEvent<Action>) => this.act(event.detail)}
        @step-wanted=${(event: CustomEvent<string>) => this.add(event.detail)}
        @picture-wanted=${(event: CustomEvent<string>) => this.choose(event.detail)}
        @place-wanted=${(event: CustomEvent<number>) => this.showPlace(event.detail)}
        @place-chosen=${(event: CustomEvent<{ path: string; where: string }>) => {
          this.place = event.detail;
          this.renderRoot.querySelector<AddStep>("tileir-add-step")?.focus();
        }}
      >
        <div class="bar">
          <button type="button" ?disabled=${!this.texts.canUndo} title="Ctrl+Z" @click=${() => this.travel(-1)}>Undo</button>
          <button type="button" ?disabled=${!this.texts.canRedo} title="Ctrl+Y" @click=${() => this.travel(1)}>Redo</button>
          <tileir-add-step .functions=${this.functions} .where=${this.place?.where ?? "at the end"}></tileir-add-step>
        </div>
        <tileir-faults .text=${this.text} .faults=${this.refused}></tileir-faults>
        ${this.view === null
          ? nothing
          : html`<tileir-steps .view=${this.view} .facts=${this.facts} .files=${this.picturesOf}></tileir-steps>`}
        <span class="hidden" role="status">${this.said}</span>
      </section>
      <div class="right">${this.pictures()}${this.panes()}</div>`;
  }

  private pictures() {
    const devices = this.devices?.devices ?? [];
    const results = this.shown?.results ?? 1;
    return html`<section class="picture" aria-label="Picture">
      <div class="bar">
        <output class="quiet" aria-label="Time">${this.shown === null ? "…" : this.status(this.shown)}</output>
        <span class="choices">
          ${results > 1
            ? html`<label
                >Result
                <select
                  @change=${(event: Event) => {
                    this.result = Number((event.target as HTMLSelectElement).value);
                    this.preview();
                  }}
                >
                  ${Array.from({ length: results }, (_, number) => html`<option value=${number}>${number + 1}</option>`)}
                </select></label
              >`
            : nothing}
          <label
            >Device
            <select
              @change=${(event: Event) => {
                this.device = (event.target as HTMLSelectElement).value;
                this.preview();
              }}
            >
              ${devices.map(
                ({ id, name }) =>
                  html`<option value=${id} ?selected=${id === (this.device || this.devices?.default)}>
                    ${id}: ${name.slice(0, 40)}
                  </option>`,
              )}
            </select></label
          >
        </span>
      </div>
      <tileir-faults .text=${this.text} .faults=${this.trouble}></tileir-faults>
      <tileir-picture
        @pixel-chosen=${(event: CustomEvent<[number, number]>) => this.probe(event.detail)}
        @visible-changed=${(event: CustomEvent<Visible | null>) => (this.visible = event.detail)}
        .reads=${this.reads}
        .original=${this.original} .made=${this.made} ?stale=${this.faults.length > 0}></tileir-picture>
    </section>`;
  }

  private status({ size, seconds }: Preview): string {
    const [height, width] = size;
    return `${width} × ${height}, ${units.seconds(seconds)}`;
  }

  private panes() {
    return html`<section
      aria-label="Text, kernels and files"
      @text-changed=${(event: CustomEvent<string>) => this.typed(event.detail)}
      @undo-wanted=${() => this.travel(-1)}
      @redo-wanted=${() => this.travel(1)}
      @place-wanted=${(event: CustomEvent<number>) => this.showPlace(event.detail)}
    >
      <div class="tabs">
        <tileir-tabs
          .tabs=${PANES}
          .chosen=${this.pane}
          .label=${"Text, kernels and files"}
          @tab-chosen=${(event: CustomEvent<string>) => (this.pane = event.detail)}
        ></tileir-tabs>
      </div>
      <div class="pane" ?hidden=${this.pane !== "text"}>
        <tileir-editor
          kept
          label="Formula"
          words="formula"
          .connection=${this.connection}
          .text=${this.text} .faults=${this.faults}></tileir-editor>
        <tileir-faults .text=${this.text} .faults=${this.faults}></tileir-faults>
      </div>
      <div class="pane" ?hidden=${this.pane !== "diagram"}>
        <tileir-diagram
          role="region"
          aria-label="What a step can be made of"
          .offered=${this.offered}
          @path-chosen=${(event: CustomEvent<string>) => this.offer(event.detail)}
          @function-chosen=${(event: CustomEvent<string>) => this.insert(event.detail)}
        ></tileir-diagram>
      </div>
      <div class="pane" ?hidden=${this.pane !== "kernels"}>
        <tileir-lives tabindex="0" role="region" aria-label="Kernels and buffers" .found=${this.found}></tileir-lives>
      </div>
      <div class="pane" ?hidden=${this.pane !== "export"}>
        <div class="export">
          <button type="button" @click=${() => void this.copy()}>Copy the text</button>
          <button
            type="button"
            @click=${() => save("picture.formula", new Blob([this.text], { type: "text/plain" }))}
          >
            Formula
          </button>
          ${[...FORMS, ...(this.devices?.sources ?? [])].map(
            ({ form, title }) => html`<button type="button" @click=${() => void this.take(form)}>${title}</button>`,
          )}
          <p class="quiet">
            The script makes the same picture bit for bit. Source is for pictures of this size, needs no tileir, and begins
            with a comment that says how it is called.
          </p>
        </div>
      </div>
    </section>`;
  }
}

define("tileir-designer", Designer);
