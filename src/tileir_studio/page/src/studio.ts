// The page: its heading, and one view at a time. A further view is one more entry of VIEWS.

import { css, html, LitElement, type TemplateResult } from "lit";
import "./designer.js";
import { define } from "./elements.js";
import "./explorer.js";
import { begin, http } from "./server.js";
import "./tabs.js";
import { shared } from "./theme.js";

interface View {
  name: string;
  title: string;
  draw: () => TemplateResult;
}

const VIEWS: readonly View[] = [
  { name: "designer", title: "Designer", draw: () => html`<tileir-designer class="view" .connection=${http}></tileir-designer>` },
  { name: "explorer", title: "Explorer", draw: () => html`<tileir-explorer class="view"></tileir-explorer>` },
];

export class Studio extends LitElement {
  static override properties = { chosen: { state: true }, opened: { state: true } };

  declare chosen: string;
  /** The views that were shown; they stay, with what was written into them. */
  declare opened: ReadonlySet<string>;

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
      .place {
        flex: 1;
        min-width: 0;
        display: flex;
      }
      .place[hidden] {
        display: none;
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
    this.chosen = "";
    this.opened = new Set();
  }

  override async connectedCallback(): Promise<void> {
    super.connectedCallback();
    this.choose(await begin().then(
      (start) => start.view,
      () => "explorer",
    ));
  }

  private choose(name: string): void {
    this.chosen = name;
    this.opened = new Set([...this.opened, name]);
  }

  protected override render() {
    return html`<header>
        <h1>tileir studio</h1>
        <tileir-tabs
          .tabs=${VIEWS}
          .chosen=${this.chosen}
          .label=${"Views"}
          @tab-chosen=${(event: CustomEvent<string>) => this.choose(event.detail)}
        ></tileir-tabs>
      </header>
      <main>
        ${VIEWS.filter(({ name }) => this.opened.has(name)).map(
          ({ name, draw }) => html`<div class="place" ?hidden=${name !== this.chosen}>${draw()}</div>`,
        )}
      </main>`;
  }
}

define("tileir-studio", Studio);
