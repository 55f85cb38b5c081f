// The text of a formula, which is the model, what the server says of it, and all that changes it.

import { LitElement, type PropertyValues } from "lit";
import type { Connection } from "./connection.js";
import type { Broken, Described, FunctionEntry } from "./formula-protocol.js";
import { Newest } from "./newest.js";
import type { Fault } from "./protocol.js";
import type { Action } from "./step-card.js";
import { Texts } from "./texts.js";

export interface Edit extends Action {
  value?: string | null;
  kind: string | null;
}

export abstract class Draft extends LitElement {
  static override properties = {
    text: { state: true },
    view: { state: true },
    faults: { state: true },
    refused: { state: true },
    functions: { state: true },
    place: { state: true },
    said: { state: true },
  };

  declare text: string;
  /** What the last text that is a formula was. */
  declare view: Described | null;
  /** What is wrong with the text. */
  declare faults: Fault[];
  /** Why the last edit by a control was refused. */
  declare refused: Fault[];
  declare functions: FunctionEntry[];
  /** Where the next step goes. */
  declare place: { path: string; where: string } | null;
  /** What was done last, for those who do not see it. */
  declare said: string;

  /** Who answers. */
  declare connection: Connection;

  protected texts = new Texts("");
  private edits: Edit[] = [];
  private editing = false;
  /** What an edit made while a newer value of the same control waited: the controls were not set back to it. */
  private passed: Described | Broken | null = null;
  private checks = new Newest();

  constructor() {
    super();
    this.text = "";
    this.view = null;
    this.faults = [];
    this.refused = [];
    this.functions = [];
    this.place = null;
    this.said = "";
  }

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("keydown", this.onKey);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    document.removeEventListener("keydown", this.onKey);
  }

  /** Takes notice of a text that is a formula without faults. */
  protected abstract written(): void;

  private write(text: string, kind: string | null): void {
    this.texts.add(text, kind);
    this.text = text;
  }

  protected override updated(changed: PropertyValues<this>): void {
    if (changed.has("text")) this.dispatchEvent(new CustomEvent("text-shown"));
  }

  /** Takes a text from elsewhere. */
  replace(text: string): void {
    if (text === this.text) return;
    this.texts.settle();
    this.typed(text);
  }

  protected typed(text: string): void {
    this.write(text, "typed");
    this.said = "";
    this.check();
  }

  protected check(): void {
    void this.checks.run(async () => {
      const { text } = this;
      await this.connection.run("formula", { text }, "formula", {
        formula: (view) => (view.text === this.text ? this.show(view) : undefined),
        faults: (faults) => (this.faults = faults),
      });
    });
  }

  private show(view: Described | Broken): void {
    this.faults = view.faults;
    this.refused = [];
    if (view.broken) return;
    this.view = view;
    if (view.faults.length === 0) this.written();
  }

  protected edit(edit: Edit): void {
    const last = this.edits.at(-1);
    if (last !== undefined && last.kind !== null && last.kind === edit.kind) this.edits.pop();
    this.edits.push(edit);
    if (!this.editing) void this.work();
  }

  private async work(): Promise<void> {
    this.editing = true;
    for (let edit = this.edits.shift(); edit !== undefined; edit = this.edits.shift()) await this.apply(edit);
    this.editing = false;
  }

  private async apply({ kind, ...asked }: Edit): Promise<void> {
    const { text } = this;
    await this.connection.run("formula.edit", { ...asked, text }, "edit", {
      formula: (view) => {
        if (text !== this.text) return; // somebody typed meanwhile, and sees what that did
        this.write(view.text, kind);
        const [next] = this.edits;
        if (next?.action === "set" && next.path === asked.path) this.passed = view;
        else this.show(view);
        if (kind === null) this.texts.settle();
      },
      faults: (faults) => {
        if (this.passed?.text === this.text) this.show(this.passed);
        this.refused = faults;
        this.requestUpdate();
        this.renderRoot.querySelectorAll<LitElement>("tileir-steps").forEach((steps) => steps.requestUpdate());
      },
    });
  }

  protected act(action: Action): void {
    this.texts.settle();
    this.said = `${action.action}: ${action.path}`;
    this.edit({ ...action, kind: null });
  }

  protected add(name: string): void {
    const steps = this.view?.controls.steps.length ?? 0;
    const path = this.place?.path ?? `steps[${steps}]`;
    this.place = null;
    this.act({ action: "add", path, function: name });
    this.said = `added ${name}`;
  }

  protected travel(by: 1 | -1): void {
    const text = this.texts.move(by);
    if (text === null) return;
    this.text = text;
    this.said = by < 0 ? "undone" : "redone";
    this.check();
  }

  /** Takes keys of the whole page: what had the focus may be gone with the step that it was in. */
  private readonly onKey = (event: KeyboardEvent): void => {
    if (!this.connection.ownsPage && !event.composedPath().includes(this)) return;
    if (!this.checkVisibility() || !(event.ctrlKey || event.metaKey) || event.altKey || event.defaultPrevented) return;
    const [target] = event.composedPath();
    if (target instanceof HTMLInputElement && target.type === "text") return;
    const key = event.key.toLowerCase();
    const by = key === "y" || (key === "z" && event.shiftKey) ? 1 : key === "z" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    this.travel(by);
  };
}
