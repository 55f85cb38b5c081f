// The editor of a program: its text, what is wrong with it, and the colour band of each statement.

import { completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Annotation, EditorState, type Range, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightSpecialChars,
  type KeyBinding,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { css, html, LitElement, type PropertyValues } from "lit";
import { completion } from "./completion.js";
import type { Connection } from "./connection.js";
import { define } from "./elements.js";
import { language } from "./language.js";
import { fromServer } from "./offsets.js";
import type { Fault } from "./protocol.js";
import { band, shared } from "./theme.js";

interface Marks {
  statements: readonly [number, number][];
  active: readonly number[];
}

/** Marks what came from elsewhere. */
const given = Annotation.define<boolean>();

const setMarks = StateEffect.define<Marks>();

const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(found, transaction) {
    for (const effect of transaction.effects) if (effect.is(setMarks)) return decorations(transaction.state, effect.value);
    return found.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** Marks the lines of statements; places are those of the page. */
function decorations(state: EditorState, { statements, active }: Marks): DecorationSet {
  const lines = new Map<number, number[]>();
  statements.forEach(([start, stop], number) => {
    if (stop > state.doc.length) return;
    const last = state.doc.lineAt(stop).number;
    for (let line = state.doc.lineAt(start).number; line <= last; line++) {
      lines.set(line, [...(lines.get(line) ?? []), number]);
    }
  });
  const found: Range<Decoration>[] = [];
  for (const [line, numbers] of [...lines].sort(([one], [other]) => one - other)) {
    const lit = numbers.some((number) => active.includes(number)) ? " active" : "";
    found.push(Decoration.line({ class: `statement band-${band(numbers)}${lit}` }).range(state.doc.line(line).from));
  }
  return Decoration.set(found);
}

export class Editor extends LitElement {
  static override properties = {
    text: {},
    label: {},
    /** Whether its texts are kept elsewhere: undo and redo are asked for, and a new text moves the cursor with it. */
    kept: { type: Boolean },
    faults: { attribute: false },
    statements: { attribute: false },
    active: { attribute: false },
    connection: { attribute: false },
    words: {},
  };

  /** The text to begin with; what somebody types comes by events. */
  declare text: string;
  declare label: string;
  declare kept: boolean;
  declare faults: Fault[];
  /** First and last character of each statement, as the server counts, in the text as it is. */
  declare statements: [number, number][];
  declare active: number[];
  /** Who knows how a text can go on; null for nobody. */
  declare connection: Connection | null;
  /** The language of the text: `tile`, or `formula`. */
  declare words: string;

  private view: EditorView | null = null;

  static override styles = [
    ...shared,
    css`
      :host {
        display: block;
        min-height: 8em;
        overflow: hidden;
        background: var(--ground);
      }
      .cm-editor {
        height: 100%;
      }
      .cm-editor.cm-focused {
        outline: 2px solid var(--accent);
        outline-offset: -2px;
      }
      .cm-scroller {
        font: 13px/1.5 var(--mono);
      }
      .cm-editor .cm-scroller .cm-gutters {
        background: var(--panel);
        color: var(--quiet);
        border-right: 1px solid var(--line);
      }
      .cm-editor .cm-scroller .cm-content {
        caret-color: var(--text);
      }
      .cm-editor .cm-scroller .cm-cursor {
        border-left-color: var(--text);
      }
      .cm-line {
        border-left: 4px solid transparent;
        padding-left: 6px;
      }
      .cm-line.statement {
        border-left-color: var(--band);
      }
      .cm-line.active {
        background: var(--active);
      }
      .cm-editor .cm-scroller .cm-selectionLayer .cm-selectionBackground {
        background: var(--accent-ground);
      }
      /* Drawn without pictures, which the policy of the page does not let in. */
      .cm-editor .cm-content .cm-lintRange-error {
        background-image: none;
        text-decoration: underline wavy var(--fault);
        text-underline-offset: 3px;
      }
      .cm-editor .cm-gutters .cm-lint-marker-error {
        content: none;
        width: 0.6em;
        height: 0.6em;
        margin-top: 0.5em;
        border-radius: 50%;
        background: var(--fault);
      }
      .cm-gutter-lint {
        width: 1em;
      }
      .cm-editor .cm-tooltip,
      .cm-editor .cm-panels {
        background: var(--raised);
        color: var(--text);
        border-color: var(--line);
      }
      .cm-editor .cm-tooltip.cm-tooltip-autocomplete > ul > li {
        padding: 0.15em 0.6em;
      }
      .cm-editor .cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected] {
        background: var(--accent-ground);
        color: var(--text);
      }
    `,
  ];

  constructor() {
    super();
    this.text = "";
    this.label = "Program";
    this.kept = false;
    this.faults = [];
    this.statements = [];
    this.active = [];
    this.connection = null;
    this.words = "tile";
  }

  protected override render() {
    return html`<slot></slot>`;
  }

  protected override firstUpdated(): void {
    const root = this.renderRoot as ShadowRoot;
    this.view = new EditorView({ root, parent: root, state: this.state() });
  }

  private state(): EditorState {
    return EditorState.create({
      doc: this.text,
      extensions: [
        lineNumbers(),
        lintGutter(),
        highlightSpecialChars(),
        this.kept ? [] : history(),
        drawSelection(),
        bracketMatching(),
        highlightSelectionMatches(),
        language,
        marks,
        completion(() => this.connection, this.words),
        EditorView.contentAttributes.of({ "aria-label": this.label }),
        EditorView.updateListener.of((update) => {
          const own = update.transactions.some((transaction) => transaction.annotation(given) === true);
          if (update.docChanged && !own) this.send("text-changed", update.state.doc.toString());
          if (update.selectionSet || update.focusChanged) this.sendStatement(update.state.selection.main.head);
        }),
        keymap.of([
          ...completionKeymap,
          { key: "Mod-Enter", run: () => this.send("run-wanted", null) },
          ...defaultKeymap,
          ...(this.kept ? this.historyKeys() : historyKeymap),
          ...searchKeymap,
        ]),
      ],
    });
  }

  private historyKeys(): KeyBinding[] {
    return [
      { key: "Mod-z", run: () => this.send("undo-wanted", null) },
      { key: "Mod-y", mac: "Mod-Shift-z", run: () => this.send("redo-wanted", null) },
      { key: "Mod-Shift-z", run: () => this.send("redo-wanted", null) },
    ];
  }

  /** Writes a text that came from elsewhere; what it shares with the one before keeps its place. */
  private replace(view: EditorView): void {
    const old = view.state.doc.toString();
    let from = 0;
    while (from < Math.min(old.length, this.text.length) && old[from] === this.text[from]) from++;
    let [to, end] = [old.length, this.text.length];
    while (to > from && end > from && old[to - 1] === this.text[end - 1]) [to, end] = [to - 1, end - 1];
    view.dispatch({ changes: { from, to, insert: this.text.slice(from, end) }, annotations: given.of(true) });
  }

  private send(name: string, detail: unknown): boolean {
    return this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  private places(): [number, number][] {
    const place = fromServer(this.view?.state.doc.toString() ?? "");
    return this.statements.map(([start, stop]) => [place(start), place(stop)]);
  }

  private sendStatement(head: number): void {
    if (this.view?.hasFocus !== true) return;
    const places = this.places();
    const { from, to } = this.view.state.doc.lineAt(head);
    const inside = places.findIndex(([start, stop]) => start <= head && head <= stop);
    const beside = places.findLastIndex(([start, stop]) => start <= to && stop >= from);
    const number = inside >= 0 ? inside : beside;
    this.send("statements-chosen", number < 0 ? [] : [number]);
  }

  protected override updated(changed: PropertyValues<this>): void {
    const { view } = this;
    if (view === null) return;
    if (changed.has("text") && this.text !== view.state.doc.toString()) {
      if (this.kept) this.replace(view);
      else view.setState(this.state());
    }
    if (changed.has("faults")) view.dispatch(setDiagnostics(view.state, this.diagnostics(view)));
    if (changed.has("statements") || changed.has("active") || changed.has("text")) {
      view.dispatch({ effects: setMarks.of({ statements: this.places(), active: this.active }) });
    }
  }

  private diagnostics(view: EditorView): Diagnostic[] {
    const place = fromServer(view.state.doc.toString());
    const last = view.state.doc.length;
    return this.faults.flatMap((fault) => {
      if (fault.start === null || fault.stop === null) return [];
      const from = Math.min(place(fault.start), last);
      const to = Math.max(from, Math.min(place(fault.stop), last));
      const message = [`${fault.code}: ${fault.message}`, ...fault.notes].join("\n");
      return [{ from, to, severity: "error" as const, message }];
    });
  }

  /** Puts the cursor at a place as the server counts them, and the focus into the editor. */
  show(start: number): void {
    const { view } = this;
    if (view === null) return;
    const anchor = Math.min(fromServer(view.state.doc.toString())(start), view.state.doc.length);
    view.dispatch({ selection: { anchor }, scrollIntoView: true });
    view.focus();
  }

  override focus(): void {
    this.view?.focus();
  }
}

define("tileir-editor", Editor);
