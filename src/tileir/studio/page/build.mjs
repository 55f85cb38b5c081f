// Builds the page: `node build.mjs FOLDER` writes the files that the server sends; by default to ../static.
import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2] ?? join(here, "..", "static");
await mkdir(folder, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: ["src/studio.ts", "src/studio.css", "src/widget.ts", "src/widget.css"],
  outdir: folder,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "eof",
  charset: "utf8",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) await copyFile(join(here, "src", name), join(folder, name));
