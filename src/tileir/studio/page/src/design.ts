// What the designer knows and does: the text, which is the model, what the server says of it, and what it makes of
// pictures. The view of it is designer.ts.

import { LitElement } from "lit";
import type { Wish } from "./control.js";
import { costText } from "./cost-text.js";
import type { Broken, Described, Explanation, FunctionEntry, Parts, Preview, Size } from "./formula-protocol.js";
import { Newest } from "./newest.js";
import type { Picture } from "./picture.js";
import type { Devices, Fault } from "./protocol.js";
import { save } from "./save.js";
import { begin, frameJob, job, Refused, upload } from "./server.js";
import type { Action, StepFacts } from "./step-card.js";
import { Texts } from "./texts.js";

/** Milliseconds after the last change until what rests is baked, and until the steps are looked at. */
const BAKED_AFTER = 700;
const STEPS_AFTER = 900;

interface Edit extends Action {
  value?: string | null;
  kind: string | null;
}

function imageOf(size: Size, content: Uint8Array<ArrayBuffer>): ImageData {
  const [height, width] = size;
  return new ImageData(new Uint8ClampedArray(content.buffer, content.byteOffset, content.byteLength), width, height);
}

export class Design extends LitElement {
  static override properties = {
    text: { state: true },
    view: { state: true },
    faults: { state: true },
    refused: { state: true },
    trouble: { state: true },
    functions: { state: true },
    original: { state: true },
    made: { state: true },
    shown: { state: true },
    facts: { state: true },
    found: { state: true },
    files: { state: true },
    place: { state: true },
    pane: { state: true },
    devices: { state: true },
    device: { state: true },
    result: { state: true },
    reads: { state: true },
    said: { state: true },
  };

  declare text: string;
  /** What the last text that is a formula was. */
  declare view: Described | null;
  /** What is wrong with the text. */
  declare faults: Fault[];
  /** Why the last edit by a control was refused. */
  declare refused: Fault[];
  /** Why there is no newer picture. */
  declare trouble: Fault[];
  declare functions: FunctionEntry[];
  declare original: ImageData | null;
  declare made: ImageData | null;
  declare shown: Preview | null;
  declare facts: ReadonlyMap<string, StepFacts>;
  declare found: Explanation | null;
  /** What the pictures of inputs are called. */
  declare files: Record<string, string>;
  /** Where the next step goes. */
  declare place: { path: string; where: string } | null;
  declare pane: string;
  declare devices: Devices | null;
  declare device: string;
  declare result: number;
  declare reads: Picture["reads"];
  /** What was done last, for those who do not see it. */
  declare said: string;

  protected texts = new Texts("");
  private inputs: Record<string, string> = {};
  private sample = "";
  private edits: Edit[] = [];
  private editing = false;
  private dragged: Wish | null = null;
  private drags = 0;
  private checks = new Newest();
  private previews = new Newest();
  private looks = new Newest();
  private probes = new Newest();
  private resting = 0;
  private looking = 0;

  constructor() {
    super();
    this.text = "";
    this.view = null;
    this.faults = [];
    this.refused = [];
    this.trouble = [];
    this.functions = [];
    this.original = null;
    this.made = null;
    this.shown = null;
    this.facts = new Map();
    this.found = null;
    this.files = {};
    this.place = null;
    this.pane = "text";
    this.devices = null;
    this.device = "";
    this.result = 0;
    this.reads = null;
    this.said = "";
  }

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener("keydown", this.onKey);
    void this.begin();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    document.removeEventListener("keydown", this.onKey);
  }

  private async begin(): Promise<void> {
    try {
      const start = await begin();
      this.text = start.formula;
      this.texts = new Texts(start.formula);
      this.sample = start.picture;
      this.files = { "": start.files[start.picture] ?? "sample picture" };
    } catch (error) {
      this.faults = error instanceof Refused ? error.faults : [];
      return;
    }
    void frameJob("functions", {}, "functions", { functions: (functions) => (this.functions = functions) });
    void job("devices", {}, "devices", { devices: (devices) => (this.devices = devices) });
    this.check();
  }

  // The text, by whatever changes it.

  private write(text: string, kind: string | null): void {
    this.texts.add(text, kind);
    this.text = text;
  }

  protected typed(text: string): void {
    this.write(text, "typed");
    this.said = "";
    this.check();
  }

  private check(): void {
    void this.checks.run(async () => {
      const { text } = this;
      await frameJob("formula", { text }, "formula", {
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
    if (view.faults.length === 0 && this.dragged === null) this.preview();
  }

  private edit(edit: Edit): void {
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
    await frameJob("formula.edit", { ...asked, text }, "edit", {
      formula: (view) => {
        if (text !== this.text) return; // somebody typed meanwhile, and sees what that did
        this.write(view.text, kind);
        this.show(view);
        if (kind === null) this.texts.settle();
      },
      faults: (faults) => {
        this.refused = faults;
        this.requestUpdate();
        this.renderRoot.querySelectorAll<LitElement>("tileir-steps").forEach((steps) => steps.requestUpdate());
      },
    });
  }

  protected set(wish: Wish): void {
    if (wish.dragged && this.dragged?.path !== wish.path) this.drags += 1;
    const kind = `${wish.path} ${this.drags}`;
    if (wish.dragged && wish.value !== null) {
      this.dragged = wish;
      this.preview();
    } else if (this.dragged !== null) {
      this.dragged = null;
      this.previews.clear();
    }
    this.edit({ action: "set", path: wish.path, value: wish.value, kind });
    if (!wish.dragged) this.drags += 1;
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
    if (!this.checkVisibility() || !(event.ctrlKey || event.metaKey) || event.altKey || event.defaultPrevented) return;
    const [target] = event.composedPath();
    if (target instanceof HTMLInputElement && target.type === "text") return;
    const key = event.key.toLowerCase();
    const by = key === "y" || (key === "z" && event.shiftKey) ? 1 : key === "z" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    this.travel(by);
  };

  // The pictures.

  private get request(): object {
    const names = this.view?.controls.inputs ?? [];
    const inputs = Object.fromEntries(names.map((name) => [name, this.inputs[name] ?? this.sample]));
    return { text: this.text, inputs, device: this.device, result: this.result };
  }

  protected get picturesOf(): Record<string, string> {
    return Object.fromEntries(
      (this.view?.controls.inputs ?? []).map((name) => [name, this.files[name] ?? this.files[""] ?? ""]),
    );
  }

  /** Asks for the picture of the text as it is; where a parameter is dragged, with its value as an argument. */
  protected preview(): void {
    this.reads = null;
    clearTimeout(this.resting);
    clearTimeout(this.looking);
    void this.previews.run(async () => {
      const { dragged } = this;
      const live = dragged !== null && dragged.path.includes(".arguments.");
      await this.ask(live ? { path: dragged.path, value: dragged.value } : {});
      if (this.dragged !== null) return;
      this.looking = setTimeout(() => this.look(), STEPS_AFTER);
      if (live) this.resting = setTimeout(() => void this.previews.run(() => this.ask({})), BAKED_AFTER);
    });
  }

  private async ask(more: object): Promise<void> {
    if (this.original === null) await this.fetchOriginal();
    await frameJob("formula.preview", { ...this.request, ...more }, "preview", {
      preview: (view, parts) => {
        this.shown = view;
        this.trouble = [];
        if (parts["preview"] !== undefined) this.made = imageOf(view.size, parts["preview"]);
      },
      faults: (faults) => (this.trouble = faults),
    });
  }

  private async fetchOriginal(): Promise<void> {
    const [name = ""] = this.view?.controls.inputs ?? [];
    await frameJob("formula.original", { upload: this.inputs[name] ?? this.sample }, "original", {
      original: ({ size }, parts) => {
        if (parts["original"] !== undefined) this.original = imageOf(size, parts["original"]);
      },
      faults: (faults) => (this.trouble = faults),
    });
  }

  /** Asks for what each step makes, and for what became of the steps. */
  private look(): void {
    if (this.faults.length > 0) return;
    void this.looks.run(async () => {
      await frameJob("formula.steps", this.request, "steps", {
        thumbnails: ({ sizes }, parts) => this.tell(sizes, parts),
        explained: (found) => {
          this.found = found;
          this.cost(found);
        },
      });
    });
  }

  private tell(sizes: Record<string, Size>, parts: Parts): void {
    const facts = new Map<string, StepFacts>();
    for (const [path, content] of Object.entries(parts)) {
      const size = sizes[path];
      if (size !== undefined) facts.set(path, { thumbnail: imageOf(size, content), cost: this.facts.get(path)?.cost ?? "" });
    }
    this.facts = facts;
  }

  private cost(found: Explanation): void {
    const facts = new Map(this.facts);
    for (const { path, kernels } of found.steps) {
      facts.set(path, { thumbnail: facts.get(path)?.thumbnail ?? null, cost: costText(found, path, kernels) });
    }
    this.facts = facts;
  }

  /** Asks which pixels of the first input one pixel of the result reads. */
  protected probe([column, row]: [number, number]): void {
    if (this.faults.length > 0) return;
    void this.probes.run(() =>
      frameJob("formula.probe", { ...this.request, row, column }, "probe", {
        probed: (found) => {
          const [[name, boxes] = ["", []]] = Object.entries(found);
          const around = (axis: 0 | 1): [number, number] => [
            Math.min(...boxes.map((box) => box[axis][0])),
            Math.max(...boxes.map((box) => box[axis][1])),
          ];
          const [rows, columns] = [around(0), around(1)];
          const words = `reads ${name} ${columns[0]}–${columns[1] - 1}, ${rows[0]}–${rows[1] - 1}`;
          this.reads = boxes.length > 0 ? { rows, columns, words } : null;
        },
      }),
    );
  }

  protected choose(name: string): void {
    const chooser = document.createElement("input");
    chooser.type = "file";
    chooser.accept = "image/*,.npy";
    chooser.addEventListener("change", () => {
      const [file] = chooser.files ?? [];
      if (file !== undefined) void this.give(name, file);
    });
    chooser.click();
  }

  private async give(name: string, file: File): Promise<void> {
    try {
      const given = await upload(file);
      this.inputs = { ...this.inputs, [name]: given.name };
      this.files = { ...this.files, [name]: `${file.name}, ${given.type}` };
      this.original = null;
      this.preview();
    } catch (error) {
      this.trouble = error instanceof Refused ? error.faults : [];
    }
  }

  // What is taken away.

  protected async take(form: string): Promise<void> {
    await frameJob("formula.export", { ...this.request, form }, "export", {
      file: ({ name, type }, parts) => {
        const content = parts["file"];
        if (content !== undefined) save(name, new Blob([content], { type }));
      },
      faults: (faults) => (this.trouble = faults),
    });
  }

  protected async copy(): Promise<void> {
    await navigator.clipboard.writeText(this.text);
    this.said = "copied";
  }
}
