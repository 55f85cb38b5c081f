// One device or target: its stages, data flow, costs and results. Two of them stand side by side to be compared.

import { css, html, LitElement, nothing, type PropertyValues } from "lit";
import "./costs.js";
import { define } from "./elements.js";
import "./graph.js";
import "./results.js";
import "./stages.js";
import "./tabs.js";
import type { CostView, Devices, Fault, GraphView, RunView, StageEntry, StageView, Subject } from "./protocol.js";
import { job } from "./server.js";
import type { Form } from "./stages.js";
import { shared } from "./theme.js";

/** A program without faults, and what its inputs are. */
export type Program = Pick<Subject, "text" | "values">;

const TABS = [
  { name: "stages", title: "Stages" },
  { name: "graph", title: "Data flow" },
  { name: "costs", title: "Costs" },
  { name: "results", title: "Results" },
] as const;

type Tab = (typeof TABS)[number]["name"];

export class Column extends LitElement {
  static override properties = {
    program: { attribute: false },
    devices: { attribute: false },
    active: { attribute: false },
    label: {},
    stale: { type: Boolean },
    subject: { state: true },
    settings: { state: true },
    tab: { state: true },
    stages: { state: true },
    chosen: { state: true },
    form: { state: true },
    stage: { state: true },
    problem: { state: true },
    graph: { state: true },
    costs: { state: true },
    results: { state: true },
    faults: { state: true },
    live: { state: true },
    compiling: { state: true },
    running: { state: true },
    measuring: { state: true },
  };

  declare program: Program | null;
  declare devices: Devices | null;
  declare active: number[];
  declare label: string;
  /** Whether the text has faults, so that the views are those of an earlier one. */
  declare stale: boolean;
  /** What the views belong to: the last program that compiled. */
  declare subject: Subject | null;
  declare settings: { device: string; target: string; passes: string; mesh: string };
  declare tab: Tab;
  declare stages: StageEntry[];
  /** The stage that is shown, and how. */
  declare chosen: string;
  declare form: Form;
  declare stage: StageView | null;
  declare problem: string;
  declare graph: GraphView | null;
  declare costs: CostView | null;
  declare results: RunView | null;
  declare faults: Fault[];
  declare live: boolean;
  declare compiling: boolean;
  declare running: boolean;
  declare measuring: boolean;

  private stopper = new AbortController();

  static override styles = [
    ...shared,
    css`
      :host {
        display: flex;
        flex-direction: column;
        min-width: 0;
        min-height: 0;
        background: var(--panel);
      }
      .settings {
        display: flex;
        flex-wrap: wrap;
        gap: 0.4em 0.9em;
        padding: 0.5em 0.8em 0.3em;
      }
      .settings select {
        max-width: 13em;
      }
      .settings input {
        width: 12em;
      }
      .settings .short {
        width: 7em;
      }
      .bar {
        display: flex;
        flex-wrap: wrap;
        justify-content: space-between;
        align-items: center;
        gap: 0.5em;
        padding: 0 0.4em;
        border-bottom: 1px solid var(--line);
      }
      .state {
        padding-right: 0.5em;
      }
      .stale {
        color: var(--fault);
      }
      .view {
        flex: 1;
        min-height: 0;
      }
      tileir-faults {
        flex: none;
      }
    `,
  ];

  constructor() {
    super();
    this.program = null;
    this.devices = null;
    this.active = [];
    this.label = "";
    this.stale = false;
    this.subject = null;
    this.settings = { device: "", target: "", passes: "", mesh: "" };
    this.tab = "stages";
    this.stages = [];
    this.chosen = "typed";
    this.form = "text";
    this.stage = null;
    this.problem = "";
    this.graph = null;
    this.costs = null;
    this.results = null;
    this.faults = [];
    this.live = false;
    this.compiling = this.running = this.measuring = false;
  }

  protected override updated(changed: PropertyValues<this>): void {
    if ((changed.has("program") || changed.has("settings")) && this.program !== null) void this.compile();
  }

  private get wanted(): Subject | null {
    return this.program === null ? null : { ...this.program, ...this.settings };
  }

  private async compile(): Promise<void> {
    const { wanted } = this;
    if (wanted === null) return;
    this.compiling = true;
    const stage = this.form === "text" ? { stage: this.chosen } : {};
    await job("compile", { ...wanted, ...stage }, `compile ${this.label}`, {
      stages: (stages) => {
        this.faults = [];
        this.stages = stages;
        this.subject = wanted;
        const known = stages.some(({ name }) => name === this.chosen);
        if (!known) this.choose(this.nearest(), this.form);
        else if (this.form === "json") void this.fetchStage();
        if (this.live) void this.run();
      },
      stage: (view) => this.showStage(view),
      graph: (graph) => (this.graph = graph),
      costs: (costs) => (this.costs = costs),
      faults: (faults) => (this.faults = faults),
    });
    if (wanted.text === this.wanted?.text) this.compiling = false;
    this.dispatchEvent(new CustomEvent("faults-changed", { detail: this.faults, bubbles: true, composed: true }));
  }

  /** The last stage of the same kind: other devices have other passes and forms of code. */
  private nearest(): string {
    const [kind] = this.chosen.split(".");
    return this.stages.findLast(({ name }) => name.split(".")[0] === kind)?.name ?? "typed";
  }

  private choose(name: string, form: Form): void {
    this.chosen = name;
    this.form = form;
    void this.fetchStage();
  }

  private async fetchStage(): Promise<void> {
    const { subject, chosen, form } = this;
    if (subject === null) return;
    await job(form === "json" ? "json" : "stage", { ...subject, stage: chosen }, `stage ${this.label}`, {
      stage: (view) => this.showStage(view),
      json: ({ name, json }) => {
        const text = JSON.stringify(JSON.parse(json), null, 1);
        this.showStage({ name, title: "JSON", text, regions: [], changes: [] });
      },
      faults: (faults) => (this.problem = faults.map((fault) => fault.message).join("; ")),
    });
  }

  private showStage(view: StageView): void {
    if (view.name !== this.chosen) return;
    this.problem = "";
    this.stage = view;
  }

  /** Runs the program, whether it is compiled yet or not, and shows its results. */
  async run(): Promise<void> {
    const { wanted } = this;
    if (wanted === null) return;
    this.running = true;
    const handlers = {
      ran: (results: RunView) => {
        this.results = results;
        this.faults = [];
      },
      faults: (faults: Fault[]) => (this.faults = faults),
    };
    const stopper = (this.stopper = new AbortController());
    await job("run", wanted, `run ${this.label}`, handlers, stopper.signal);
    if (this.stopper === stopper) this.running = false;
  }

  private async measure(): Promise<void> {
    if (this.subject === null) return;
    this.measuring = true;
    await job("measure", this.subject, `measure ${this.label}`, {
      costs: (costs) => (this.costs = costs),
      faults: (faults) => (this.faults = faults),
    });
    this.measuring = false;
  }

  /** Shows the results, and runs the program. */
  showRun(): void {
    this.tab = "results";
    void this.run();
  }

  private set(name: "device" | "target" | "passes" | "mesh", event: Event): void {
    const { value } = event.target as HTMLInputElement | HTMLSelectElement;
    this.settings = { ...this.settings, [name]: value.trim() };
  }

  private settingsForm() {
    const { devices, settings } = this;
    return html`<div class="settings" role="group" aria-label="Device ${this.label}">
      <label
        >Device
        <select @change=${(event: Event) => this.set("device", event)}>
          <option value="">default${devices?.default ? ` (${devices.default})` : ""}</option>
          ${devices?.devices.map(({ id, name }) => html`<option value=${id}>${id} – ${name}</option>`)}
        </select></label
      >
      <label
        >Passes of
        <select @change=${(event: Event) => this.set("target", event)}>
          <option value="">the device</option>
          ${devices?.targets.map((name) => html`<option value=${name}>${name}</option>`)}
        </select></label
      >
      <label
        >or
        <input
          class="mono"
          .value=${settings.passes}
          placeholder="accumulate,thread"
          spellcheck="false"
          aria-label="Pipeline of passes instead"
          @change=${(event: Event) => this.set("passes", event)}
      /></label>
      <label
        >Ranks
        <input
          class="mono short"
          .value=${settings.mesh}
          placeholder="x=2,y=2"
          spellcheck="false"
          aria-label="Mesh of ranks of the data flow"
          @change=${(event: Event) => this.set("mesh", event)}
      /></label>
    </div>`;
  }

  private view() {
    switch (this.tab) {
      case "graph":
        return html`<tileir-graph role="tabpanel" aria-label="Data flow" class="view" .graph=${this.graph} .active=${this.active}></tileir-graph>`;
      case "costs":
        return html`<tileir-costs
          role="tabpanel"
          aria-label="Costs"
          class="view"
          .costs=${this.costs}
          ?busy=${this.measuring}
          @measure-wanted=${() => void this.measure()}
        ></tileir-costs>`;
      case "results":
        return html`<tileir-results
          role="tabpanel"
          aria-label="Results"
          class="view"
          .run=${this.results}
          ?busy=${this.running}
          ?live=${this.live}
          @live-changed=${(event: CustomEvent<boolean>) => (this.live = event.detail)}
          @stop-wanted=${() => this.stopper.abort()}
          @run-wanted=${(event: Event) => {
            event.stopPropagation();
            void this.run();
          }}
        ></tileir-results>`;
      case "stages":
        return html`<tileir-stages
          role="tabpanel"
          aria-label="Stages"
          class="view"
          .stages=${this.stages}
          .chosen=${this.chosen}
          .form=${this.form}
          .stage=${this.stage}
          .problem=${this.problem}
          @stage-chosen=${({ detail: [name, form] }: CustomEvent<[string, Form]>) => this.choose(name, form)}
          .active=${this.active}
          .label=${this.label}
        ></tileir-stages>`;
    }
  }

  private get state() {
    if (this.compiling) return html`<span class="state quiet">compiling…</span>`;
    const old = this.subject !== null && (this.stale || this.faults.length > 0);
    return old ? html`<span class="state stale">the last program that compiled</span>` : nothing;
  }

  protected override render() {
    const own = this.faults.filter((fault) => fault.start === null);
    return html`${this.settingsForm()}
      <div class="bar">
        <tileir-tabs
          .tabs=${TABS}
          .chosen=${this.tab}
          .label="What to show of ${this.label}"
          @tab-chosen=${(event: CustomEvent<Tab>) => (this.tab = event.detail)}
        ></tileir-tabs>
        ${this.state}
      </div>
      <tileir-faults .text=${this.program?.text ?? ""} .faults=${own}></tileir-faults>
      ${this.view()}`;
  }
}

define("tileir-column", Column);
