// What the kernels of a step took, in words.

import type { Explanation } from "./formula-protocol.js";
import * as units from "./units.js";

/** Says in which kernels a step went, and what these took; they may do other steps, too. */
export function costText(found: Explanation, path: string, numbers: readonly number[]): string {
  const kernels = numbers.flatMap((number) => found.kernels[number] ?? []);
  if (kernels.length === 0) return "in no kernel: folded into others";
  const times = kernels.map(({ measured, seconds }) => measured ?? seconds);
  const total = times.includes(null) ? "" : ` ${units.seconds(times.reduce<number>((sum, time) => sum + (time ?? 0), 0))}`;
  const others = new Set(kernels.flatMap(({ steps }) => steps.filter((each) => each !== path)));
  const shared = others.size === 0 ? "" : ` with ${[...others].map((each) => each.replace(/\D+/g, " ").trim().split(" ").map((at) => Number(at) + 1).join(".")).join(", ")}`;
  return `kernel ${ranges(numbers)}${shared}:${total}`;
}

function ranges(numbers: readonly number[]): string {
  const found: [number, number][] = [];
  for (const number of numbers) {
    const last = found.at(-1);
    if (last !== undefined && last[1] === number - 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
}
