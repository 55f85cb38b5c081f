// A picture before and after a formula, one of them wiped off the other, and the values of one pixel in both.

import { css, html, LitElement, nothing, type PropertyValues } from "lit";
import { define } from "./elements.js";
import { visibleOf } from "./pixels.js";
import { shared } from "./theme.js";

/** Screen pixels for a pixel of the picture; 0 for as many as fit. */
const ZOOMS = [0, 0.5, 1, 2, 4, 8];

interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export class Picture extends LitElement {
  static override properties = {
    original: { attribute: false },
    made: { attribute: false },
    reads: { attribute: false },
    wipe: { state: true },
    zoom: { state: true },
    pixel: { state: true },
    stale: { type: Boolean, reflect: true },
  };

  declare original: ImageData | null;
  declare made: ImageData | null;
  /** What the pixel that was chosen reads of the picture before: the rows and columns around it all; in words, too. */
  declare reads: { rows: [number, number]; columns: [number, number]; words: string } | null;
  /** Percent of the width that shows the picture before. */
  declare wipe: number;
  declare zoom: number;
  /** Column and row of the pixel that is looked at. */
  declare pixel: [number, number] | null;
  declare stale: boolean;

  static override styles = [
    ...shared,
    css`
      :host {
        display: flex;
        flex-direction: column;
        min-height: 0;
        background: var(--ground);
      }
      .stage {
        flex: 1;
        min-height: 0;
        overflow: auto;
        margin: 0.6em;
      }
      .sheet {
        position: relative;
        overflow: hidden;
        width: 100%;
        height: 100%;
      }
      .near canvas {
        image-rendering: pixelated;
      }
      canvas {
        position: absolute;
        inset: 0;
        width: 100%;
        height: 100%;
        object-fit: contain;
      }
      :host([stale]) canvas.made {
        opacity: 0.55;
      }
      .line {
        position: absolute;
        width: 1px;
        background: var(--accent);
        pointer-events: none;
      }
      .reads {
        position: absolute;
        border: 1.5px solid var(--accent);
        outline: 1px solid var(--ground);
        min-width: 4px;
        min-height: 4px;
        pointer-events: none;
      }
      .bar {
        display: flex;
        flex-wrap: wrap;
        gap: 0.3em 1em;
        align-items: center;
        padding: 0.3em 0.8em;
        border-top: 1px solid var(--line);
        background: var(--panel);
      }
      .bar label:first-child {
        flex: 1 1 16em;
      }
      input[type="range"] {
        flex: 1;
        min-width: 5em;
        padding: 0;
        border: 0;
        background: none;
        accent-color: var(--accent);
      }
      input[type="number"] {
        width: 5em;
        min-height: 1.7em;
        background: var(--ground);
      }
      .values {
        font-variant-numeric: tabular-nums;
        min-width: 17em;
      }
      .chip {
        display: inline-block;
        width: 0.9em;
        height: 0.9em;
        border: 1px solid var(--line);
        vertical-align: -0.1em;
      }
    `,
  ];

  private watch = new ResizeObserver(() => this.place());

  constructor() {
    super();
    this.original = null;
    this.made = null;
    this.reads = null;
    this.wipe = 0;
    this.zoom = 0;
    this.pixel = null;
    this.stale = false;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.watch.disconnect();
  }

  protected override firstUpdated(): void {
    if (this.stage !== null) this.watch.observe(this.stage);
  }

  protected override updated(changed: PropertyValues<this>): void {
    for (const side of ["original", "made"] as const) {
      const canvas = this.renderRoot.querySelector<HTMLCanvasElement>(`canvas.${side}`);
      const picture = this[side];
      if (!changed.has(side) || canvas === null || picture === null) continue;
      if (canvas.width !== picture.width) canvas.width = picture.width;
      if (canvas.height !== picture.height) canvas.height = picture.height;
      canvas.getContext("2d", { alpha: false })?.putImageData(picture, 0, 0);
    }
    this.place();
    if (changed.has("made") && this.made !== null) this.dispatchEvent(new CustomEvent("picture-shown"));
  }

  private get shown(): ImageData | null {
    return this.made ?? this.original;
  }

  private get stage(): HTMLElement | null {
    return this.renderRoot.querySelector<HTMLElement>(".stage");
  }

  /** Where the picture after lies in the sheet: as large as it fits, or as large as the zoom says. */
  private get box(): Box | null {
    const { shown, stage, zoom } = this;
    if (stage === null || shown === null) return null;
    if (zoom > 0) return { left: 0, top: 0, width: shown.width * zoom, height: shown.height * zoom };
    const scale = Math.min(stage.clientWidth / shown.width, stage.clientHeight / shown.height);
    const [width, height] = [shown.width * scale, shown.height * scale];
    return { left: (stage.clientWidth - width) / 2, top: (stage.clientHeight - height) / 2, width, height };
  }

  /** Shows the picture before on the left of the wipe, with a line between. */
  private place(): void {
    const sheet = this.renderRoot.querySelector<HTMLElement>(".sheet");
    const before = this.renderRoot.querySelector<HTMLElement>("canvas.original");
    const line = this.renderRoot.querySelector<HTMLElement>(".line");
    const { shown } = this;
    if (shown === null || sheet === null || before === null || line === null) return;
    sheet.style.setProperty("width", this.zoom > 0 ? `${shown.width * this.zoom}px` : "100%");
    sheet.style.setProperty("height", this.zoom > 0 ? `${shown.height * this.zoom}px` : "100%");
    sheet.classList.toggle("near", this.zoom > 1);
    const { box } = this;
    if (box === null) return;
    const edge = box.left + (box.width * this.wipe) / 100;
    before.style.setProperty("clip-path", `inset(0 ${sheet.clientWidth - edge}px 0 0)`);
    line.style.setProperty("left", `${edge}px`);
    line.style.setProperty("top", `${box.top}px`);
    line.style.setProperty("height", `${box.height}px`);
    before.style.setProperty("opacity", this.wipe === 0 ? "0" : "1");
    this.placeReads(box);
    line.hidden = this.wipe === 0 || this.wipe === 100;
    this.tellVisible();
  }

  /** Says which part of the picture after is seen, so that it can be computed before the rest. */
  private tellVisible(): void {
    const { box, shown, stage } = this;
    if (box === null || shown === null || stage === null) return;
    const { clientWidth: width, clientHeight: height, scrollLeft, scrollTop } = stage;
    const window = { left: scrollLeft - box.left, top: scrollTop - box.top, width, height };
    const detail = visibleOf(shown, box.width / shown.width, window, this.wipe);
    this.dispatchEvent(new CustomEvent("visible-changed", { detail }));
  }

  /** Draws a frame around what the chosen pixel reads. */
  private placeReads(box: Box): void {
    const frame = this.renderRoot.querySelector<HTMLElement>(".reads");
    if (frame === null || this.reads === null || this.original === null) return;
    const { rows, columns } = this.reads;
    const [across, down] = [box.width / this.original.width, box.height / this.original.height];
    frame.style.setProperty("left", `${box.left + columns[0] * across}px`);
    frame.style.setProperty("top", `${box.top + rows[0] * down}px`);
    frame.style.setProperty("width", `${(columns[1] - columns[0]) * across}px`);
    frame.style.setProperty("height", `${(rows[1] - rows[0]) * down}px`);
  }

  private choose(): void {
    if (this.pixel === null) return;
    this.dispatchEvent(new CustomEvent("pixel-chosen", { detail: this.pixel, bubbles: true, composed: true }));
  }

  private point(event: PointerEvent): void {
    const sheet = this.renderRoot.querySelector(".sheet")?.getBoundingClientRect();
    const { box, shown: picture } = this;
    if (sheet === undefined || box === null || picture === null) return;
    const x = Math.floor(((event.clientX - sheet.left - box.left) / box.width) * picture.width);
    const y = Math.floor(((event.clientY - sheet.top - box.top) / box.height) * picture.height);
    if (x >= 0 && y >= 0 && x < picture.width && y < picture.height) this.pixel = [x, y];
  }

  private levels(picture: ImageData | null): string {
    if (picture === null || this.pixel === null) return "–";
    const [x, y] = this.pixel;
    if (x >= picture.width || y >= picture.height) return "–";
    const at = (y * picture.width + x) * 4;
    const [red, green, blue] = picture.data.subarray(at, at + 3);
    return red === green && green === blue ? String(red) : `${red} ${green} ${blue}`;
  }

  private coordinate(axis: 0 | 1, event: Event): void {
    const pixel: [number, number] = [...(this.pixel ?? [0, 0])];
    const most = (axis === 0 ? this.made?.width : this.made?.height) ?? 1;
    pixel[axis] = Math.max(0, Math.min(most - 1, Math.round(Number((event.target as HTMLInputElement).value))));
    this.pixel = pixel;
    this.choose();
  }

  protected override render() {
    const { made } = this;
    return html`<div
        class="stage"
        role="region"
        aria-label="Pictures"
        tabindex=${this.zoom > 0 ? 0 : nothing}
        @scroll=${() => this.tellVisible()}
      >
        <div
          class="sheet"
          @pointermove=${this.point}
          @pointerdown=${(event: PointerEvent) => {
            this.point(event);
            this.choose();
          }}
        >
          <canvas class="made" role="img" aria-label="After"></canvas>
          <canvas class="original" role="img" aria-label="Before"></canvas>
          <span class="line" hidden></span>
          <span class="reads" ?hidden=${this.reads === null}></span>
        </div>
      </div>
      <div class="bar">
        <label
          ><span>Before</span
          ><input
            type="range"
            min="0"
            max="100"
            .value=${String(this.wipe)}
            aria-label="Wipe: percent that shows the picture before"
            @input=${(event: Event) => (this.wipe = Number((event.target as HTMLInputElement).value))}
          /><span>After</span></label
        >
        <label
          >Zoom
          <select @change=${(event: Event) => (this.zoom = Number((event.target as HTMLSelectElement).value))}>
            ${ZOOMS.map((zoom) => html`<option value=${zoom}>${zoom === 0 ? "fit" : `${zoom * 100} %`}</option>`)}
          </select></label
        >
        ${made === null
          ? nothing
          : html`<label
                >x<input
                  type="number"
                  min="0"
                  max=${made.width - 1}
                  .value=${String(this.pixel?.[0] ?? "")}
                  aria-label="Column of the pixel"
                  @input=${(event: Event) => this.coordinate(0, event)} /></label
              ><label
                >y<input
                  type="number"
                  min="0"
                  max=${made.height - 1}
                  .value=${String(this.pixel?.[1] ?? "")}
                  aria-label="Row of the pixel"
                  @input=${(event: Event) => this.coordinate(1, event)} /></label
              ><output class="values" aria-label="Values of the pixel"
                >${this.levels(this.original)} → ${this.levels(made)}</output
              ><output class="quiet" aria-label="What the pixel reads">${this.reads?.words ?? ""}</output>`}
      </div>`;
  }
}

define("tileir-picture", Picture);
