// The roofline of a machine with the kernels below it: Williams, Waterman and Patterson, CACM 52(4), 2009.

import { svg } from "lit";
import type { CostView, KernelView } from "./protocol.js";
import { band } from "./theme.js";
import * as units from "./units.js";

const WIDTH = 620;
const HEIGHT = 300;
const LEFT = 62;
const RIGHT = 16;
const TOP = 14;
const BOTTOM = 40;

interface Axes {
  x: (intensity: number) => number;
  y: (rate: number) => number;
  left: number;
  right: number;
  low: number;
  high: number;
}

/** What a kernel reaches in operations a second: as measured, or as predicted. */
export function reached(kernel: KernelView): number {
  return kernel.operations / (kernel.measured ?? kernel.predicted);
}

function axesOf(cost: CostView, kernels: KernelView[]): Axes {
  const intensities = kernels.map((kernel) => kernel.intensity);
  const rates = kernels.map(reached);
  const peaks = cost.roofs.filter((roof) => !roof.per_byte).map((roof) => roof.rate);
  const left = Math.floor(Math.log10(Math.min(0.1, ...intensities)));
  const right = Math.ceil(Math.log10(Math.max(100, ...intensities)));
  const high = Math.ceil(Math.log10(Math.max(...peaks, ...rates, 1e9)));
  const low = Math.floor(Math.log10(Math.max(1, Math.min(...rates, 10 ** (high - 3)))));
  const x = (value: number) => LEFT + ((Math.log10(value) - left) / (right - left)) * (WIDTH - LEFT - RIGHT);
  const y = (value: number) => HEIGHT - BOTTOM - ((Math.log10(value) - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  return { x, y, left, right, low, high };
}

function* powers(first: number, last: number): Generator<number> {
  for (let power = first; power <= last; power++) yield 10 ** power;
}

function grid(axes: Axes) {
  const across = [...powers(axes.left, axes.right)].map(
    (value) => svg`<line class="grid" x1=${axes.x(value)} x2=${axes.x(value)} y1=${TOP} y2=${HEIGHT - BOTTOM}></line>
      <text class="tick" x=${axes.x(value)} y=${HEIGHT - BOTTOM + 15} text-anchor="middle">${value}</text>`,
  );
  const up = [...powers(axes.low, axes.high)].map(
    (value) => svg`<line class="grid" x1=${LEFT} x2=${WIDTH - RIGHT} y1=${axes.y(value)} y2=${axes.y(value)}></line>
      <text class="tick" x=${LEFT - 6} y=${axes.y(value) + 4} text-anchor="end">${units.count(value)}</text>`,
  );
  return [across, up];
}

function roofs(cost: CostView, axes: Axes) {
  const peak = Math.max(...cost.roofs.filter((roof) => !roof.per_byte).map((roof) => roof.rate), 0) || 10 ** axes.high;
  return cost.roofs.map((roof) => {
    if (!roof.per_byte) {
      const y = axes.y(roof.rate);
      return svg`<line class="roof" x1=${LEFT} x2=${WIDTH - RIGHT} y1=${y} y2=${y}></line>
        <text class="roof-name" x=${WIDTH - RIGHT - 4} y=${y - 4} text-anchor="end">${roof.name}</text>`;
    }
    const from = Math.max(10 ** axes.left, 10 ** axes.low / roof.rate);
    const to = Math.min(10 ** axes.right, peak / roof.rate);
    if (!(to > from)) return svg``;
    return svg`<line class="roof memory" x1=${axes.x(from)} y1=${axes.y(from * roof.rate)} x2=${axes.x(to)} y2=${axes.y(to * roof.rate)}></line>
      <text class="roof-name" x=${axes.x(from) + 4} y=${axes.y(1.7 * from * roof.rate) - 3}>${roof.name}</text>`;
  });
}

/** A drawing; what it says is in the table beside it, so that it needs no names for those who do not see it. */
export function roofline(cost: CostView) {
  const kernels = cost.kernels.filter((kernel) => kernel.operations > 0 && kernel.intensity > 0);
  const axes = axesOf(cost, kernels);
  const dots = kernels.map((kernel) => {
    const number = cost.kernels.indexOf(kernel) + 1;
    const [x, y] = [axes.x(kernel.intensity), axes.y(reached(kernel))];
    return svg`<g class="band-${band(kernel.statements)}">
      <title>${number}. ${kernel.name}: ${units.count(reached(kernel))} operations/s</title>
      <circle class=${kernel.measured === null ? "predicted" : "measured"} cx=${x} cy=${y} r="5"></circle>
      <text class="dot" x=${x + 8} y=${y + 4}>${number}</text>
    </g>`;
  });
  return svg`<svg class="roofline" role="img" viewBox="0 0 ${WIDTH} ${HEIGHT}"
      aria-label="Roofline of ${cost.target}: operations a second over operations a byte; the table has the numbers">
    ${grid(axes)}${roofs(cost, axes)}${dots}
    <text class="axis" x=${(LEFT + WIDTH - RIGHT) / 2} y=${HEIGHT - 6} text-anchor="middle">operations for each byte moved</text>
    <text class="axis" x=${-(TOP + HEIGHT - BOTTOM) / 2} y="13" text-anchor="middle" transform="rotate(-90)">operations/s</text>
  </svg>`;
}
