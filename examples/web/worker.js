// The model's thread: the page stays responsive while it loads and runs. A classic worker, since
// LiteRT.js loads its WebAssembly with importScripts, which a module worker doesn't have.

/* global self */
const ready = Promise.all([import("./bundle.mjs"), import("./engines.mjs"), import("./vendor/transformers.min.js")]);
let opened = null; // {manifest, artifact, model}

async function fetchJson(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} gives status ${response.status}.`);
  return response.json();
}

function setUp(transformers, folder) {
  const { env } = transformers;
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.useBrowserCache = false;
  env.localModelPath = new URL(".", self.location).pathname;
  const at = new URL("./vendor/ort-wasm-simd-threaded.asyncify", self.location).href;
  env.backends.onnx.wasm.wasmPaths = { mjs: `${at}.mjs`, wasm: `${at}.wasm` };
  env.backends.onnx.wasm.numThreads = self.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
  return folder.replace(/^\.?\/|\/$/g, "");
}

async function fetchBytes(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} gives status ${response.status}.`);
  return new Uint8Array(await response.arrayBuffer());
}

async function open({ folder, library, precision }) {
  const [bundle, engines, transformers] = await ready;
  const start = performance.now();
  const manifest = bundle.checkManifest(await fetchJson(`${folder}edgebert.json`));
  const artifact = bundle.findArtifact(manifest, library, precision);
  const files = {
    tokenizer: await fetchJson(`${folder}tokenizer.json`),
    tokenizerConfig: await fetchJson(`${folder}tokenizer_config.json`),
  };
  const name = setUp(transformers, folder);
  let model;
  if (library === "litert") {
    const litert = await import("./vendor/litert.js");
    const wasm = new URL("./vendor/litert-wasm/", self.location).href;
    self.Module = { locateFile: (name) => wasm + name }; // else it looks beside this worker
    await litert.loadLiteRt(wasm);
    const bytes = await fetchBytes(`${folder}${artifact.files[0].path}`);
    model = await engines.openLiteRt(litert, transformers, { bytes, files, manifest });
  } else {
    model = await engines.openTransformers(transformers, { name, device: "wasm", files, manifest, artifact });
  }
  const worst = await bundle.selfTest(manifest, artifact, model);
  opened = { bundle, manifest, model };
  return {
    worst,
    tolerance: artifact.tolerance,
    loadMs: performance.now() - start,
    sizeBytes: bundle.sizeOf(manifest, artifact),
    path: artifact.files[0].path,
  };
}

/** Texts to [{row, labels, dropped, ms}], one after the other. */
async function run({ texts, pairs }) {
  const { bundle, manifest, model } = opened;
  const results = [];
  for (const [i, text] of texts.entries()) {
    const start = performance.now();
    const encoding = model.encode(text, pairs?.[i]);
    const row = await model.run(encoding);
    const ms = performance.now() - start;
    const labels = manifest.task === "text-classification" ? bundle.labelsOf(manifest, row) : null;
    results.push({ row, labels, dropped: encoding.dropped, ms });
  }
  return results;
}

let turn = Promise.resolve(); // one message after the other
self.onmessage = ({ data: { id, what, given } }) => {
  turn = turn.then(async () => {
    try {
      self.postMessage({ id, result: await (what === "open" ? open(given) : run(given)) });
    } catch (error) {
      self.postMessage({ id, error: error.message ?? String(error) });
    }
  });
};
