// node run.mjs VENDORED BUNDLE LIBRARY [PRECISION] < texts: one text a line in (of pairs, two with a
// tab between them), one line of JSON out. VENDORED is the folder that vendor.mjs made, LIBRARY is
// transformers or litert, PRECISION fp32 (the default), int8 or int4. The self-test comes first.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

import { checkManifest, findArtifact, labelsOf, selfTest, sizeOf } from "./bundle.mjs";
import { openLiteRt, openTransformers } from "./engines.mjs";

const [vendored, bundle, library, precision = "fp32"] = process.argv.slice(2);
const json = (name) => JSON.parse(readFileSync(path.join(bundle, name), "utf8"));

async function load(name) {
  return import(pathToFileURL(path.resolve(vendored, "npm/node_modules", name)).href);
}

/** LiteRT.js expects a browser's worker: a global `self` that can import a script by its path. */
async function loadLiteRt() {
  globalThis.self = globalThis;
  globalThis.require = createRequire(import.meta.url);
  globalThis.importScripts = (file) => {
    globalThis.__dirname = path.dirname(file);
    globalThis.__filename = file;
    vm.runInThisContext(readFileSync(file, "utf8"), { filename: file });
  };
  globalThis.navigator ??= {};
  const litert = await load("@litertjs/core/dist/index.js");
  await litert.loadLiteRt(`${path.resolve(vendored, "npm/node_modules/@litertjs/core/wasm")}/`);
  return litert;
}

async function open(manifest, artifact) {
  const transformers = await load("@huggingface/transformers/dist/transformers.node.mjs");
  const files = { tokenizer: json("tokenizer.json"), tokenizerConfig: json("tokenizer_config.json") };
  if (library === "litert") {
    const bytes = new Uint8Array(readFileSync(path.join(bundle, artifact.files[0].path)));
    return openLiteRt(await loadLiteRt(), transformers, { bytes, files, manifest });
  }
  transformers.env.allowRemoteModels = false;
  transformers.env.localModelPath = path.dirname(path.resolve(bundle));
  const name = path.basename(path.resolve(bundle));
  return openTransformers(transformers, { name, device: "cpu", files, manifest, artifact });
}

function answer(manifest, row, dropped) {
  const result = { dropped_tokens: dropped };
  if (manifest.task === "feature-extraction") return { ...result, vector: row };
  if (manifest.task === "regression") return { ...result, score: row };
  return { ...result, logits: row, ...labelsOf(manifest, row)[0] };
}

async function main() {
  const manifest = checkManifest(json("edgebert.json"));
  const artifact = findArtifact(manifest, library, precision);
  const start = performance.now();
  const model = await open(manifest, artifact);
  const worst = await selfTest(manifest, artifact, model);
  const seconds = (performance.now() - start) / 1000;
  const megabytes = sizeOf(manifest, artifact) / 1e6;
  console.error(
    `self-test passed, off by ${worst.toPrecision(3)}; ${megabytes.toFixed(1)} MB, loaded in ${seconds.toFixed(2)} s`,
  );
  const lines = readFileSync(0, "utf8").split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) {
    const [text, pair] = manifest.pairs ? line.split("\t") : [line];
    const encoding = model.encode(text, pair);
    console.log(JSON.stringify(answer(manifest, await model.run(encoding), encoding.dropped)));
  }
}

if (!bundle || !["transformers", "litert"].includes(library)) {
  console.error("usage: node run.mjs VENDORED BUNDLE transformers|litert [PRECISION] < texts");
  process.exit(2);
}
main().then(
  () => process.exit(0), // LiteRT.js leaves handles open
  (error) => {
    console.error(`run.mjs: ${error.message}`);
    process.exit(1);
  },
);
