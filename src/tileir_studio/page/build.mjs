// Builds the page: `node build.mjs FOLDER` writes the files that the server sends; by default to ../static.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2] ?? join(here, "..", "static");
await mkdir(folder, { recursive: true });
const built = await build({
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
  metafile: true,
});
for (const name of ["index.html", "icon.svg"]) await copyFile(join(here, "src", name), join(folder, name));

// The licences of all packages that the files above contain, which ask to be told with each copy.
const inputs = Object.keys(built.metafile.inputs);
const packages = new Set(inputs.map((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]).filter(Boolean));
const licences = [];
for (const name of [...packages].sort()) {
  const at = join(here, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(at, "package.json"), "utf8"));
  const file = (await readdir(at)).find((each) => /^licen[cs]e/i.test(each));
  if (!file) throw new Error(`${name} has no file with its licence`);
  const text = (await readFile(join(at, file), "utf8")).replaceAll("\r\n", "\n").trim();
  licences.push(`${name} ${version} (${license})\n\n${text}\n`);
}
const rule = `\n${"-".repeat(80)}\n\n`;
await writeFile(join(folder, "licences.txt"), `The page contains these packages.\n${rule}${licences.join(rule)}`);

// Digests of the sources and of all files above, by which a test without node sees that one was changed without the other.
const sources = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"].map((name) => join(here, name));
for (const name of await readdir(join(here, "src"))) sources.push(join(here, "src", name));
const results = (await readdir(folder)).filter((name) => name !== "digests.txt").map((name) => join(folder, name));
const digest = async (path) => createHash("sha256").update(await readFile(path)).digest("hex");
const lines = await Promise.all([...sources, ...results].map(async (path) => `${await digest(path)}  ${basename(path)}`));
await writeFile(join(folder, "digests.txt"), `${lines.sort().join("\n")}\n`);
