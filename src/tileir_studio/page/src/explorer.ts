// The explorer: a program with its inputs on the left, and what becomes of it on the right. The text is the model.

import { css, html, LitElement, nothing } from "lit";
import "./column.js";
import "./editor.js";
import { define } from "./elements.js";
import "./faults.js";
import "./inputs.js";
import type { Column, Program } from "./column.js";
import type { Editor } from "./editor.js";
import type { Checked, Devices, Fault, Start } from "./protocol.js";
import { Refused } from "./connection.js";
import { begin, http, job, remember, remembered, save } from "./server.js";
import { shared } from "./theme.js";

/** Milliseconds after the last letter. */
const CHECKED_AFTER = 60;
const COMPILED_AFTER = 120;

export class Explorer extends LitElement {
  static override properties = {
    start: { state: true },
    text: { state: true },
    values: { state: true },
    checked: { state: true },
    statements: { state: true },
    faults: { state: true },
    late: { state: true },
    active: { state: true },
    program: { state: true },
    devices: { state: true },
    two: { state: true },
  };

  declare start: Start | null;
  declare text: string;
  declare values: Record<string, string>;
  /** What the last text without faults was. */
  declare checked: Checked | null;
  /** Places of statements in the text as it is; none while it has faults. */
  declare statements: [number, number][];
  /** What is wrong with the text alone. */
  declare faults: Fault[];
  /** What compiling found wrong with the places of the text, such as shapes that do not fit. */
  declare late: Fault[];
  declare active: number[];
  declare program: Program | null;
  declare devices: Devices | null;
  declare two: boolean;

  private waiting = 0;

  static override styles = [
    ...shared,
    css`
      :host {
        display: grid;
        grid-template-columns: minmax(24em, 4fr) minmax(0, 9fr);
        gap: 1px;
        background: var(--line);
        min-height: 0;
      }
      .left {
        display: flex;
        flex-direction: column;
        min-height: 0;
        min-width: 0;
        background: var(--panel);
      }
      .head {
        display: flex;
        flex-wrap: wrap;
        gap: 0.8em;
        align-items: center;
        padding: 0.4em 0.8em;
        border-bottom: 1px solid var(--line);
      }
      .head h2 {
        flex: 1 1 8em;
      }
      tileir-editor {
        flex: 1;
      }
      tileir-inputs {
        flex: none;
        max-height: 40%;
        border-top: 1px solid var(--line);
      }
      .right {
        display: grid;
        grid-auto-flow: column;
        grid-auto-columns: minmax(0, 1fr);
        gap: 1px;
        min-height: 0;
        min-width: 0;
      }
      @media (max-width: 900px) {
        :host {
          grid-template-columns: minmax(0, 1fr);
        }
        .left {
          min-height: 70vh;
        }
        .right {
          grid-auto-flow: row;
          grid-auto-rows: 90vh;
        }
      }
    `,
  ];

  constructor() {
    super();
    this.start = null;
    this.text = "";
    this.values = {};
    this.checked = null;
    this.statements = [];
    this.faults = [];
    this.late = [];
    this.active = [];
    this.program = null;
    this.devices = null;
    this.two = false;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    void this.begin();
  }

  private async begin(): Promise<void> {
    try {
      this.start = { ...(await begin()), ...remembered() };
    } catch (error) {
      this.faults = error instanceof Refused ? error.faults : [];
      return;
    }
    this.values = this.start.values;
    this.text = this.start.text;
    void job("devices", {}, "devices", { devices: (devices) => (this.devices = devices) });
    await this.check();
  }

  private edit(text: string): void {
    this.text = text;
    remember({ text, values: this.values });
    this.late = [];
    this.statements = [];
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => void this.check(), CHECKED_AFTER);
  }

  private async check(): Promise<void> {
    const { text } = this;
    await job("check", { text }, "check", {
      checked: (view) => this.show(text, view),
      faults: (faults) => (this.faults = faults),
    });
  }

  private show(text: string, view: Checked): void {
    if (text !== this.text) return;
    this.faults = view.faults;
    if (view.faults.length > 0) return;
    this.checked = view;
    this.statements = view.statements;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.propose(), this.program === null ? 0 : COMPILED_AFTER);
  }

  /** Passes the program on to the columns, with a value for each input. */
  private propose(): void {
    const inputs = this.checked?.inputs ?? [];
    const values = Object.fromEntries(inputs.map(({ name, guess }) => [name, this.values[name] ?? guess]));
    this.program = { text: this.text, values };
  }

  private setValues(values: Record<string, string>): void {
    this.values = values;
    remember({ text: this.text, values });
    if (this.faults.length === 0) this.propose();
  }

  private get columns(): Column[] {
    return [...this.renderRoot.querySelectorAll<Column>("tileir-column")];
  }

  private showPlace(start: number): void {
    this.renderRoot.querySelector<Editor>("tileir-editor")?.show(start);
  }

  private showStatement(number: number | undefined): void {
    const place = number === undefined ? undefined : this.statements[number];
    if (place !== undefined) this.showPlace(place[0]);
  }

  protected override render() {
    const chosen = (event: CustomEvent<number[]>) => (this.active = event.detail);
    const faults = [...this.faults, ...this.late];
    const labels = this.two ? ["A", "B"] : ["A"];
    return html`<section
        class="left"
        aria-label="Program"
        @text-changed=${(event: CustomEvent<string>) => this.edit(event.detail)}
        @place-wanted=${(event: CustomEvent<number>) => this.showPlace(event.detail)}
        @statements-chosen=${chosen}
        @values-changed=${(event: CustomEvent<Record<string, string>>) => this.setValues(event.detail)}
        @run-wanted=${() => this.columns.forEach((column) => column.showRun())}
      >
        <div class="head">
          <h2 class="cut" title=${this.start?.name ?? nothing}>${this.start?.name ?? "Program"}</h2>
          <button @click=${() => save(this.start?.name ?? "program.tile", this.text)}>Save</button>
          <label
            ><input
              type="checkbox"
              .checked=${this.two}
              @change=${(event: Event) => (this.two = (event.target as HTMLInputElement).checked)}
            />Compare two targets</label
          >
        </div>
        <tileir-editor
          .connection=${http}
          .text=${this.start?.text ?? ""}
          .faults=${faults}
          .statements=${this.statements}
          .active=${this.active}
        ></tileir-editor>
        <tileir-faults .text=${this.text} .faults=${faults}></tileir-faults>
        <tileir-inputs .inputs=${this.checked?.inputs ?? []} .values=${this.values}
          .files=${this.start?.files ?? {}}></tileir-inputs>
      </section>
      <section
        class="right"
        aria-label="Compiler"
        @statements-chosen=${chosen}
        @statement-wanted=${(event: CustomEvent<number | undefined>) => this.showStatement(event.detail)}
        @faults-changed=${(event: CustomEvent<Fault[]>) => this.addFaults(event.detail)}
      >
        ${labels.map(
          (label) =>
            html`<tileir-column
              .label=${label}
              .program=${this.program}
              .devices=${this.devices}
              .active=${this.active}
              ?stale=${this.faults.length > 0}
            ></tileir-column>`,
        )}
      </section>`;
  }

  private addFaults(faults: Fault[]): void {
    if (this.program?.text === this.text) this.late = faults.filter((fault) => fault.start !== null);
  }
}

define("tileir-explorer", Explorer);
