// The views of formulas, as src/tileir_studio/views/formula_views.py and tileir_formula.editing.controls declare them.

import type { Devices, Fault, WireView } from "./protocol.js";

interface Common {
  path: string;
  label: string;
  value: string;
  default: string | null;
  given: boolean;
  about: string;
}

export interface NumberControl extends Common {
  $: "NumberControl";
  low: number | null;
  high: number | null;
  step: number;
  whole: boolean;
}

export interface ChoiceControl extends Common {
  $: "ChoiceControl";
  words: string[];
}

export interface WeightsControl extends Common {
  $: "WeightsControl";
  rows: number[][];
  most: number;
}

export interface PlainControl extends Common {
  $: "FlagControl" | "ColourControl" | "NameControl";
}

export type Control = NumberControl | ChoiceControl | WeightsControl | PlainControl;

export interface StepControls {
  $: "StepControls";
  path: string;
  number: number | null;
  about: string;
  name: PlainControl;
  function: ChoiceControl;
  sources: ChoiceControl[];
  parameters: Control[];
  boundary: ChoiceControl | null;
  condition: { kind: ChoiceControl; parts: Control[] };
  merge: { function: ChoiceControl; parts: Control[] };
}

export interface GroupControls {
  $: "GroupControls";
  path: string;
  number: number | null;
  count: NumberControl;
  limit: NumberControl;
  steps: Line[];
}

export type Line = StepControls | GroupControls;

export interface FormulaControls {
  inputs: string[];
  steps: Line[];
  results: ChoiceControl[];
}

export interface Place {
  node: string;
  layer: number;
  slot: number;
}

/** Where nodes go, and what reads what. */
export interface Drawing {
  places: Place[];
  wires: WireView[];
  layers: number;
  slots: number;
}

/** The steps of a group, below what they read from outside of it. */
export interface GroupDrawing extends Drawing {
  path: string;
  outside: { node: string; label: string }[];
}

export interface Described extends Drawing {
  text: string;
  broken: false;
  controls: FormulaControls;
  faults: Fault[];
  groups: GroupDrawing[];
}

export interface Broken {
  text: string;
  broken: true;
  faults: Fault[];
}

export interface FunctionEntry {
  name: string;
  about: string;
  pictures: number;
}

/** A function in the flexibility diagram: `conditions` are the letters of those that a step of it can have. */
export interface DiagramNode {
  name: string;
  about: string;
  arguments: string[];
  conditions: string[];
}

/** How a text can go on: an option replaces so many characters before the place. */
export interface Completed {
  typed: number;
  options: { label: string; kind: string; about: string }[];
}

/** What fits at a place of a formula. */
export interface Offered {
  text: string;
  path: string;
  places: { path: string; label: string }[];
  primaries: DiagramNode[];
  merges: DiagramNode[];
  sources: string[];
  implied: string | null;
  conditions: { letter: string; about: string }[];
}

/** Height and width. */
export type Size = [number, number];

export interface Preview {
  size: Size;
  seconds: number;
  results: number;
  text: string;
}

/** A part of a large picture, which comes before the rest. */
export interface PreviewPart {
  /** Top, left, height and width. */
  place: [number, number, number, number];
  size: Size;
  text: string;
}

export interface Kernel {
  name: string;
  steps: string[];
  moved_bytes: number;
  seconds: number | null;
  measured: number | null;
  runs: number;
  conditions: string[];
}

export interface BufferLife {
  name: string;
  role: string;
  dtype: string;
  shape: number[];
  nbytes: number;
  first: number;
  last: number;
  block: number | null;
  offset: number | null;
}

export interface Explanation {
  steps: { path: string; text: string; kernels: number[] }[];
  kernels: Kernel[];
  dispatch: { buffers: BufferLife[]; temporary_bytes: number; peak_bytes: number };
  device: string;
}

/** What a pixel reads: boxes of rows and columns, by the names of inputs. */
export type Probed = Record<string, [[number, number], [number, number]][]>;

/** The events of the jobs on formulas, by name, with the bytes that came beside them. */
export interface FormulaEvents {
  functions: FunctionEntry[];
  devices: Devices;
  formula: Described | Broken;
  original: { size: Size };
  offered: Offered;
  completed: Completed;
  /** What is shown until the optimised program is there. */
  quick: Preview;
  /** Without a picture where that is the same as of `quick`. */
  preview: Preview;
  part: PreviewPart;
  thumbnails: { sizes: Record<string, Size> };
  explained: Explanation;
  probed: Probed;
  file: { name: string; type: string };
  faults: Fault[];
  stale: null;
}

export type Parts = Record<string, Uint8Array<ArrayBuffer>>;

export type FormulaHandlers = {
  [Name in keyof FormulaEvents]?: (view: FormulaEvents[Name], parts: Parts) => void;
};

export function isStep(line: Line): line is StepControls {
  return line.$ === "StepControls";
}
