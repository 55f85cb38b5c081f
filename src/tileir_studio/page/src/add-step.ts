// Adds a step by search: a combobox as the ARIA Authoring Practices describe it, with what each function does.

import { css, html, LitElement, nothing } from "lit";
import { live } from "lit/directives/live.js";
import { define } from "./elements.js";
import type { FunctionEntry } from "./formula-protocol.js";
import { shared } from "./theme.js";

const MOST = 40;

/** Functions whose names begin with the words, then those that have them in their names, then elsewhere. */
export function found(functions: readonly FunctionEntry[], words: string): FunctionEntry[] {
  const wanted = words.trim().toLowerCase();
  const rank = ({ name, about }: FunctionEntry) =>
    name.startsWith(wanted) ? 0 : name.includes(wanted) ? 1 : about.toLowerCase().includes(wanted) ? 2 : 3;
  return functions
    .map((entry) => ({ entry, at: rank(entry) }))
    .filter(({ at }) => at < 3)
    .sort((one, other) => one.at - other.at)
    .slice(0, MOST)
    .map(({ entry }) => entry);
}

export class AddStep extends LitElement {
  static override properties = {
    functions: { attribute: false },
    where: {},
    words: { state: true },
    open: { state: true },
    active: { state: true },
  };

  declare functions: readonly FunctionEntry[];
  /** Where the step goes, in words. */
  declare where: string;
  declare words: string;
  declare open: boolean;
  declare active: number;

  static override styles = [
    ...shared,
    css`
      :host {
        position: relative;
        flex: 1;
        min-width: 12em;
      }
      input {
        width: 100%;
      }
      ul {
        position: absolute;
        z-index: 3;
        inset: 100% 0 auto 0;
        max-height: 22em;
        overflow: auto;
        margin: 2px 0 0;
        padding: 2px;
        list-style: none;
        background: var(--raised);
        border: 1px solid var(--line);
        border-radius: 4px;
        box-shadow: 0 6px 20px rgb(0 0 0 / 18%);
      }
      li {
        padding: 0.25em 0.55em;
        border-radius: 3px;
        cursor: pointer;
      }
      li[aria-selected="true"] {
        background: var(--accent-ground);
      }
      li span {
        display: block;
        font-size: 0.88em;
      }
    `,
  ];

  constructor() {
    super();
    this.functions = [];
    this.where = "at the end";
    this.words = "";
    this.open = false;
    this.active = 0;
  }

  private take(entry: FunctionEntry | undefined): void {
    if (entry === undefined) return;
    this.words = "";
    this.open = false;
    this.dispatchEvent(new CustomEvent("step-wanted", { detail: entry.name, bubbles: true, composed: true }));
  }

  private onKey(event: KeyboardEvent, entries: FunctionEntry[]): void {
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    const move = moves[event.key];
    if (move !== undefined) {
      event.preventDefault();
      const next = this.open ? this.active + move : 0;
      this.open = true;
      this.active = (next + entries.length) % Math.max(1, entries.length);
    } else if (event.key === "Enter" && this.open) {
      event.preventDefault();
      this.take(entries[this.active]);
    } else if (event.key === "Escape" && this.open) {
      event.preventDefault();
      this.open = false;
    }
  }

  override focus(): void {
    this.renderRoot.querySelector("input")?.focus();
  }

  protected override updated(): void {
    this.renderRoot.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }

  protected override render() {
    const entries = found(this.functions, this.words);
    const shown = this.open && entries.length > 0;
    return html`<input
        type="text"
        role="combobox"
        aria-label=${`Add a step ${this.where}`}
        aria-autocomplete="list"
        aria-expanded=${shown}
        aria-controls="functions"
        aria-activedescendant=${shown ? `function-${this.active}` : nothing}
        autocomplete="off"
        spellcheck="false"
        placeholder=${`Add a step ${this.where}…`}
        .value=${live(this.words)}
        @input=${(event: Event) => {
          this.words = (event.target as HTMLInputElement).value;
          this.active = 0;
          this.open = true;
        }}
        @click=${() => (this.open = true)}
        @blur=${() => (this.open = false)}
        @keydown=${(event: KeyboardEvent) => this.onKey(event, entries)}
      />
      <ul id="functions" role="listbox" aria-label="Functions" ?hidden=${!shown}>
        ${entries.map(
          (entry, number) =>
            html`<li
              id=${`function-${number}`}
              role="option"
              aria-selected=${number === this.active}
              @mousedown=${(event: Event) => {
                event.preventDefault();
                this.take(entry);
              }}
              @mousemove=${() => (this.active = number)}
            >
              ${entry.name}<span class="quiet">${entry.about}</span>
            </li>`,
        )}
      </ul>
      <span class="hidden" role="status">${this.open ? `${entries.length} functions` : ""}</span>`;
  }
}

define("tileir-add-step", AddStep);
