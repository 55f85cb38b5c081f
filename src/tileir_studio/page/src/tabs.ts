// A row of tabs, as the ARIA Authoring Practices describe them: arrows move, and what is chosen shows at once.

import { css, html, LitElement } from "lit";
import { define } from "./elements.js";
import { shared } from "./theme.js";

export interface Tab {
  name: string;
  title: string;
}

export class Tabs extends LitElement {
  static override properties = { tabs: { attribute: false }, chosen: {}, label: {} };

  declare tabs: readonly Tab[];
  declare chosen: string;
  declare label: string;

  static override styles = [
    ...shared,
    css`
      div {
        display: flex;
        flex-wrap: wrap;
        gap: 0.2em;
      }
      button {
        background: none;
        border: 0;
        border-bottom: 2px solid transparent;
        border-radius: 0;
        color: var(--quiet);
      }
      button[aria-selected="true"] {
        color: var(--text);
        font-weight: 600;
        border-bottom-color: var(--accent);
      }
    `,
  ];

  constructor() {
    super();
    this.tabs = [];
    this.chosen = "";
    this.label = "";
  }

  private choose(name: string): void {
    this.dispatchEvent(new CustomEvent("tab-chosen", { detail: name, bubbles: true, composed: true }));
  }

  private async onKey(event: KeyboardEvent): Promise<void> {
    const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1 };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = this.tabs.findIndex((tab) => tab.name === this.chosen);
    const next = this.tabs[(at + step + this.tabs.length) % this.tabs.length];
    if (next === undefined) return;
    this.choose(next.name);
    await new Promise(requestAnimationFrame);
    this.renderRoot.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
  }

  protected override render() {
    return html`<div role="tablist" aria-label=${this.label} @keydown=${this.onKey}>
      ${this.tabs.map(
        ({ name, title }) =>
          html`<button
            role="tab"
            aria-selected=${name === this.chosen}
            tabindex=${name === this.chosen ? 0 : -1}
            @click=${() => this.choose(name)}
          >
            ${title}
          </button>`,
      )}
    </div>`;
  }
}

define("tileir-tabs", Tabs);
