// Completion in the editors: the server knows how a text can go on, and is asked while somebody writes.

import { autocompletion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import type { Extension } from "@codemirror/state";
import type { Connection } from "./connection.js";
import type { Completed } from "./formula-protocol.js";
import { toServer } from "./offsets.js";

/** CodeMirror's names of what options are, for their signs. */
const TYPES: Record<string, string> = {
  function: "function",
  parameter: "property",
  choice: "enum",
  source: "variable",
  name: "variable",
  word: "keyword",
};

/** What has to stand before the cursor for options to open by themselves. */
const OPENS = /[$\w]$|[(,=] ?$/;

/** Returns completion by whoever answers an editor. */
export function completion(connection: () => Connection | null, language: string): Extension {
  async function options(context: CompletionContext): Promise<CompletionResult | null> {
    const answers = connection();
    const text = context.state.doc.toString();
    const before = context.state.doc.lineAt(context.pos).text.slice(0, context.pos - context.state.doc.lineAt(context.pos).from);
    if (answers === null || !(context.explicit || OPENS.test(before))) return null;
    let found: Completed | null = null;
    await answers.run("complete", { text, place: toServer(text, context.pos), language }, `complete ${language}`, {
      completed: (completed) => (found = completed),
    });
    if (found === null || context.aborted) return null;
    const { typed, options } = found as Completed;
    return {
      from: context.pos - typed,
      options: options.map(({ label, kind, about }) => ({ label, type: TYPES[kind] ?? "text", info: about || undefined })),
      validFor: /^[$\w]*$/,
    } as CompletionResult;
  }
  return autocompletion({ override: [options], icons: false, maxRenderedOptions: 60 });
}
