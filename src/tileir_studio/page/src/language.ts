// Tile for the editor: which characters are comments, numbers, names of axes, and words of the language.

import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

const words = new Set(["function", "scan", "times", "reverse", "default", "no_defract", "expression", "polynomial"]);

const tile = StreamLanguage.define({
  name: "tile",
  token(stream) {
    if (stream.match("//")) {
      stream.skipToEnd();
      return "comment";
    }
    if (stream.match(/^\d+(\.\d*)?([eE][+-]?\d+)?/)) return "number";
    const name = stream.match(/^[A-Za-z_]\w*/);
    if (name !== null && typeof name !== "boolean") {
      if (words.has(name[0])) return "keyword";
      if (stream.match(/^\s*\(/, false)) return "function";
      return /^[a-z]/.test(name[0]) ? "index" : "variableName";
    }
    if (stream.match(/^[-+*/<>=!&|^~%?:]+/)) return "operator";
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "//" } },
  tokenTable: { function: tags.function(tags.variableName), index: tags.local(tags.variableName) },
});

const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: tags.number, color: "var(--band-1)" },
  { tag: tags.keyword, color: "var(--band-3)", fontWeight: "600" },
  { tag: tags.function(tags.variableName), color: "var(--band-0)" },
  { tag: tags.local(tags.variableName), color: "var(--band-2)" },
]);

export const language = [tile, syntaxHighlighting(colours)];
