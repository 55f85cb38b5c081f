// What the designer knows and does: what it makes of pictures, how, and what is taken away. The view of it is
// designer.ts, the text of the formula is in draft.ts.

import type { PropertyValues } from "lit";
import { Refused } from "./connection.js";
import type { Wish } from "./control.js";
import { costText } from "./cost-text.js";
import { Draft } from "./draft.js";
import type { Explanation, Offered, Parts, Preview, Size } from "./formula-protocol.js";
import { Newest } from "./newest.js";
import type { Picture } from "./picture.js";
import { imageOf, patched, type Visible } from "./pixels.js";
import type { Devices, Fault } from "./protocol.js";
import { save } from "./save.js";
import type { StepFacts } from "./step-card.js";
import { Texts } from "./texts.js";

/** Milliseconds after the last change until what rests is baked, and until the steps are looked at. */
const BAKED_AFTER = 700;
const STEPS_AFTER = 900;

/** Seconds of a run from which on what is seen is worth kernels of its own. */
const SLOW = 0.08;

export abstract class Design extends Draft {
  static override properties = {
    ...Draft.properties,
    trouble: { state: true },
    original: { state: true },
    made: { state: true },
    shown: { state: true },
    facts: { state: true },
    found: { state: true },
    files: { state: true },
    pane: { state: true },
    devices: { state: true },
    device: { state: true },
    result: { state: true },
    reads: { state: true },
    offered: { state: true },
  };

  /** Why there is no newer picture. */
  declare trouble: Fault[];
  declare original: ImageData | null;
  declare made: ImageData | null;
  declare shown: Preview | null;
  declare facts: ReadonlyMap<string, StepFacts>;
  declare found: Explanation | null;
  /** What the pictures of inputs are called. */
  declare files: Record<string, string>;
  declare pane: string;
  declare devices: Devices | null;
  declare device: string;
  declare result: number;
  declare reads: Picture["reads"];
  /** What fits at the place that is looked at. */
  declare offered: Offered | null;

  private inputs: Record<string, string> = {};
  private sample = "";
  private dragged: Wish | null = null;
  private drags = 0;
  private previews = new Newest();
  /** Counts what was asked for, since answers to what is older may still come. */
  private asked = 0;
  /** What is seen of the picture; null for all of it. */
  protected visible: Visible | null = null;
  private looks = new Newest();
  private offers = new Newest();
  /** The place that was chosen in the diagram; empty for the end. */
  private spot = "";
  private probes = new Newest();
  private resting = 0;
  private looking = 0;

  constructor() {
    super();
    this.trouble = [];
    this.original = null;
    this.made = null;
    this.shown = null;
    this.facts = new Map();
    this.found = null;
    this.files = {};
    this.pane = "text";
    this.devices = null;
    this.device = "";
    this.result = 0;
    this.reads = null;
    this.offered = null;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    void this.begin();
  }

  private async begin(): Promise<void> {
    try {
      const start = await this.connection.begin();
      this.text = start.formula;
      this.texts = new Texts(start.formula);
      this.sample = start.picture;
      this.inputs = start.inputs;
      this.files = { "": start.files[start.picture] ?? "sample picture" };
      for (const [name, given] of Object.entries(start.inputs)) this.files[name] = start.files[given] ?? given;
    } catch (error) {
      this.faults = error instanceof Refused ? error.faults : [];
      return;
    }
    void this.connection.run("functions", {}, "functions", { functions: (functions) => (this.functions = functions) });
    void this.connection.run("devices", {}, "devices", { devices: (devices) => (this.devices = devices) });
    this.check();
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

  protected override updated(changed: PropertyValues<this>): void {
    super.updated(changed);
    if (this.pane === "diagram" && (changed.has("pane") || changed.has("view"))) this.offer(this.spot);
  }

  /** Asks what fits at a place. */
  protected offer(path: string): void {
    this.spot = path;
    void this.offers.run(() =>
      this.connection.run("formula.offers", { text: this.view?.text ?? "", path }, "offers", {
        offered: (offered) => {
          this.offered = offered;
          if (offered.path !== path) this.spot = "";
        },
      }),
    );
  }

  protected insert(name: string): void {
    this.act({ action: "add", path: this.spot || (this.offered?.path ?? ""), function: name });
    this.said = `added ${name}`;
  }

  protected override written(): void {
    if (this.dragged === null) this.preview();
  }

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
    void this.previews.run(async (overtake) => {
      const { dragged } = this;
      const live = dragged !== null && dragged.path.includes(".arguments.");
      const newest = await this.ask(live ? { ...dragged, region: this.isSlow ? this.visible : null } : {}, overtake);
      if (this.dragged !== null || !newest) return;
      this.looking = setTimeout(() => this.look(), STEPS_AFTER);
      if (live) this.resting = setTimeout(() => void this.previews.run(async () => void (await this.ask({}))), BAKED_AFTER);
    });
  }

  private get isSlow(): boolean {
    return (this.shown?.seconds ?? 0) > SLOW;
  }

  /** Fetches a picture; once what is seen is there, the next value may overtake the rest, or a better program. */
  private async ask(more: object, overtake: () => void = () => undefined): Promise<boolean> {
    const number = ++this.asked;
    if (this.original === null) await this.fetchOriginal();
    await this.connection.run("formula.preview", { ...this.request, ...more }, "preview", {
      part: ({ place, size }, parts) => {
        const content = parts["part"];
        if (number !== this.asked || content === undefined) return;
        this.made = patched(this.made, size, place, content);
        overtake();
      },
      quick: (view, parts) => {
        if (number !== this.asked) return;
        this.present(view, parts);
        overtake();
      },
      preview: (view, parts) => {
        if (number === this.asked) this.present(view, parts);
      },
      faults: (faults) => (this.trouble = faults),
    });
    return number === this.asked;
  }

  /** Shows a picture; where there is none, the one before it was the same. */
  private present(view: Preview, parts: Parts): void {
    this.shown = view;
    this.trouble = [];
    if (parts["preview"] !== undefined) this.made = imageOf(view.size, parts["preview"]);
  }

  private async fetchOriginal(): Promise<void> {
    const [name = ""] = this.view?.controls.inputs ?? [];
    await this.connection.run("formula.original", { upload: this.inputs[name] ?? this.sample }, "original", {
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
      await this.connection.run("formula.steps", this.request, "steps", {
        thumbnails: ({ sizes }, parts) => this.tell(sizes, parts),
        explained: (found) => {
          this.found = found;
          this.cost(found);
        },
      });
    });
  }

  private tell(sizes: Record<string, Size>, parts: Parts): void {
    const facts = new Map(this.facts);
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
      this.connection.run("formula.probe", { ...this.request, row, column }, "probe", {
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
      const given = await this.connection.upload(file);
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
    await this.connection.run("formula.export", { ...this.request, form }, "export", {
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
