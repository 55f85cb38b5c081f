// Work of which the newest matters: while one is under way the next one waits, and one that comes later replaces it.

/** Work that may say, by the function it is given, that what comes next need not wait for its end. */
export type Work = (overtake: () => void) => Promise<void>;

export class Newest {
  private waiting: Work | null = null;
  private busy = false;

  constructor(private readonly changed: () => void = () => undefined) {}

  get isBusy(): boolean {
    return this.busy;
  }

  async run(work: Work): Promise<void> {
    this.waiting = work;
    if (this.busy) return;
    this.busy = true;
    this.changed();
    try {
      while (this.waiting !== null) {
        const next: Work = this.waiting;
        this.waiting = null;
        await new Promise<void>((resolve, reject) => void next(resolve).then(resolve, reject));
      }
    } finally {
      this.busy = false;
      this.changed();
    }
  }

  /** Gives up what waits. */
  clear(): void {
    this.waiting = null;
  }
}
