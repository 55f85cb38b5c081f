// The page: its heading, and one view at a time. A further view is one more entry of VIEWS.

import { css, html, LitElement, type TemplateResult } from "lit";
import "./explorer.js";
import "./tabs.js";
import { shared } from "./theme.js";

interface View {
  name: string;
  title: string;
  draw: () => TemplateResult;
}

const VIEWS: readonly View[] = [
  { name: "explorer", title: "Explorer", draw: () => html`<tileir-explorer class="view"></tileir-explorer>` },
];

export class Studio extends LitElement {
  static override properties = { chosen: { state: true } };

  declare chosen: string;

  static override styles = [
    ...shared,
    css`
      :host {
        display: flex;
        flex-direction: column;
        height: 100vh;
      }
      header {
        display: flex;
        flex-wrap: wrap;
        align-items: center;
        gap: 1.5em;
        padding: 0 0.8em;
        border-bottom: 1px solid var(--line);
        background: var(--panel);
      }
      h1 {
        font-size: 1rem;
        margin: 0.45em 0;
      }
      main {
        flex: 1;
        min-height: 0;
        display: flex;
      }
      .view {
        flex: 1;
        min-width: 0;
      }
      @media (max-width: 900px) {
        :host {
          height: auto;
        }
      }
    `,
  ];

  constructor() {
    super();
    this.chosen = "explorer";
  }

  protected override render() {
    const view = VIEWS.find(({ name }) => name === this.chosen);
    return html`<header>
        <h1>tileir studio</h1>
        <tileir-tabs
          .tabs=${VIEWS}
          .chosen=${this.chosen}
          .label=${"Views"}
          @tab-chosen=${(event: CustomEvent<string>) => (this.chosen = event.detail)}
        ></tileir-tabs>
      </header>
      <main>${view?.draw()}</main>`;
  }
}

customElements.define("tileir-studio", Studio);
