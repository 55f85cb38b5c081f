// Who answers the designer: the server that the page came from, or the kernel of a notebook.

import type { FormulaHandlers } from "./formula-protocol.js";
import type { Fault, Start, Upload } from "./protocol.js";

export interface Connection {
  /** Whether the page is that of the designer, which then takes keys wherever they are pressed. */
  ownsPage: boolean;
  /** What the designer begins with. */
  begin: () => Promise<Start>;
  /** Runs a job: the handlers are called with its events. Jobs of one lane replace one another. */
  run: (name: string, request: object, lane: string, handlers: FormulaHandlers) => Promise<void>;
  /** Gives a file away, which is kept for a while. */
  upload: (file: Blob) => Promise<Upload>;
}

/** Something that was refused; what is wrong is in `faults`. */
export class Refused extends Error {
  constructor(readonly faults: Fault[]) {
    super(faults.map((fault) => fault.message).join("; "));
  }
}

export function bare(message: string): Fault {
  return { code: "TIL911", message, notes: [], start: null, stop: null, line: null, column: null };
}
