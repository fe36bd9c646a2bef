// node vendor.mjs OUT: install the two libraries by npm under OUT/npm, and put a site without any
// other host into OUT/site: page, worker, libraries, WebAssembly. Any web server can serve it.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const PAGE = ["index.html", "style.css", "app.mjs", "worker.js", "bundle.mjs", "engines.mjs"];

const out = path.resolve(process.argv[2] ?? "build/web");
const npm = path.join(out, "npm");
mkdirSync(npm, { recursive: true });
cpSync(path.join(HERE, "package.json"), path.join(npm, "package.json"));
execFileSync("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: npm, stdio: "inherit" });

const modules = path.join(npm, "node_modules");
const site = path.join(out, "site");
const vendor = path.join(site, "vendor");
rmSync(site, { recursive: true, force: true });
mkdirSync(vendor, { recursive: true });
for (const name of PAGE) cpSync(path.join(HERE, name), path.join(site, name));

const put = (from, to) => cpSync(path.join(modules, from), path.join(vendor, to), { recursive: true });
put("@huggingface/transformers/dist/transformers.min.js", "transformers.min.js");
for (const end of ["mjs", "wasm"]) {
  const name = `ort-wasm-simd-threaded.asyncify.${end}`;
  put(`onnxruntime-web/dist/${name}`, name);
}
put("@litertjs/core/wasm", "litert-wasm");
put("@litertjs/wasm-utils/dist/index.js", "litert-utils.js");
// A worker knows no import map, so the one name without a path gets one.
const source = readFileSync(path.join(modules, "@litertjs/core/dist/index.js"), "utf8");
const resolved = source.replaceAll('from "@litertjs/wasm-utils"', 'from "./litert-utils.js"');
if (resolved === source) throw new Error("@litertjs/core no longer imports @litertjs/wasm-utils; look at vendor.mjs.");
writeFileSync(path.join(vendor, "litert.js"), resolved);
console.log(`${site} is a whole site; serve it: node serve.mjs ${site} BUNDLE`);
