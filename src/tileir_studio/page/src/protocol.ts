// The views that the server sends, as src/tileir_studio/views/views.py declares them.

export interface Fault {
  code: string;
  message: string;
  notes: string[];
  start: number | null;
  stop: number | null;
  line: number | null;
  column: number | null;
}

export interface InputView {
  name: string;
  dims: string[] | null;
  guess: string;
}

export interface Checked {
  faults: Fault[];
  inputs: InputView[];
  outputs: string[];
  statements: [number, number][];
}

export interface StageEntry {
  name: string;
  title: string;
  group: string;
  changed: boolean;
}

export interface Region {
  first: number;
  last: number;
  statements: number[];
}

export interface StageView {
  name: string;
  title: string;
  text: string;
  regions: Region[];
  changes: [number, number][];
}

export interface NodeView {
  name: string;
  label: string;
  kind: "input" | "output" | "value";
  reads: string[];
  layer: number;
  slot: number;
  statement: number | null;
  /** How ranks of a mesh share it out, and why they exchange it; empty where they do not. */
  cut: string;
  exchange: string;
}

export interface WireView {
  source: string;
  target: string;
  /** Layer and slot in each layer that the wire passes. */
  places: [number, number][];
}

export interface GraphView {
  nodes: NodeView[];
  wires: WireView[];
  layers: number;
  slots: number;
  omitted: number;
}

export interface KernelView {
  name: string;
  statements: number[];
  operations: number;
  bytes_moved: number;
  intensity: number;
  bound: string;
  /** How often it runs, and on which conditions; empty for what runs once. */
  runs: string;
  /** Whether the time of the program has it. */
  counted: boolean;
  predicted: number;
  measured: number | null;
}

export interface Roof {
  name: string;
  rate: number;
  per_byte: boolean;
}

export interface CostView {
  target: string;
  kernels: KernelView[];
  seconds: number;
  measured: number | null;
  assumptions: string[];
  roofs: Roof[];
}

export interface ResultView {
  name: string;
  type: string;
  shown: string;
  least: number | null;
  most: number | null;
  mean: number | null;
  picture: string | null;
}

export interface RunView {
  results: ResultView[];
  seconds: number;
  device: string;
  pictures?: Record<string, string>;
}

export interface Devices {
  devices: { id: string; name: string; backend: string }[];
  default: string | null;
  missing: Record<string, string>;
  targets: string[];
  /** Back ends that write programs as source, and what that is called. */
  sources: { form: string; title: string }[];
}

export interface Start {
  name: string;
  text: string;
  values: Record<string, string>;
  /** What uploads among the values are called, by their names. */
  files: Record<string, string>;
  /** What the designer begins with, and the upload that it is applied to. */
  formula: string;
  picture: string;
  /** The uploads of inputs that have another one. */
  inputs: Record<string, string>;
  view: string;
}

export interface Upload {
  name: string;
  type: string;
}

/** What a request is about: src/tileir_studio/views/subject.py. */
export interface Subject {
  text: string;
  values: Record<string, string>;
  device?: string;
  target?: string;
  passes?: string;
  mesh?: string;
}

/** The events of jobs, by name. */
export interface Events {
  checked: Checked;
  faults: Fault[];
  stages: StageEntry[];
  stage: StageView;
  json: { name: string; json: string };
  graph: GraphView;
  costs: CostView;
  ran: RunView;
  devices: Devices;
  stale: null;
}

export type Handlers = { [Name in keyof Events]?: (view: Events[Name]) => void };
