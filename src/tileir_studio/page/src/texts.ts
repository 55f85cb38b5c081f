// The states of a text, one after the other: undo and redo.

const MOST = 500;

export class Texts {
  private states: string[];
  private at = 0;
  /** What the last change belongs to; further ones of the same take its place. */
  private kind: string | null = null;

  constructor(text: string) {
    this.states = [text];
  }

  /** Notes a text; those of one kind, such as the values that a slider passes, count as one. */
  add(text: string, kind: string | null): void {
    if (text === this.states[this.at]) return;
    const kept = this.states.slice(0, this.at + 1);
    if (kind !== null && kind === this.kind && this.at > 0) kept.pop();
    this.states = [...kept, text].slice(-MOST);
    this.at = this.states.length - 1;
    this.kind = kind;
  }

  /** Lets the next change be one of its own. */
  settle(): void {
    this.kind = null;
  }

  get canUndo(): boolean {
    return this.at > 0;
  }

  get canRedo(): boolean {
    return this.at < this.states.length - 1;
  }

  /** Returns the text before or after the one that is shown now; null where there is none. */
  move(by: 1 | -1): string | null {
    const text = this.states[this.at + by];
    if (text === undefined) return null;
    this.at += by;
    this.kind = null;
    return text;
  }
}
