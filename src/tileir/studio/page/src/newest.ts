// Work of which the newest matters: while one is under way the next one waits, and one that comes later replaces it.

export class Newest {
  private waiting: (() => Promise<void>) | null = null;
  private busy = false;

  constructor(private readonly changed: () => void = () => undefined) {}

  get isBusy(): boolean {
    return this.busy;
  }

  async run(work: () => Promise<void>): Promise<void> {
    this.waiting = work;
    if (this.busy) return;
    this.busy = true;
    this.changed();
    try {
      while (this.waiting !== null) {
        const next: () => Promise<void> = this.waiting;
        this.waiting = null;
        await next();
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
