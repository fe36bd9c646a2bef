// The page: asks the worker, shows what comes back. Nothing here waits for the model.

import { BACKENDS, checkManifest, cosine } from "./bundle.mjs";

const at = (id) => document.getElementById(id);
const FOLDER = new URLSearchParams(location.search).get("bundle") ?? "bundle/";
const NAMES = { transformers: "transformers.js", litert: "LiteRT.js" };
const ORDER = ["int8", "fp32", "int4", "fp16"]; // the first that is there is taken
const SENTENCES = [
  "A man is eating food.",
  "Someone is having a meal.",
  "The stock market fell by three percent.",
  "Two dogs run along the beach.",
  "She plays the violin in an orchestra.",
  "The recipe asks for two eggs and some flour.",
];
const EXAMPLES = {
  "feature-extraction": "What is for dinner?",
  "text-classification": "A warm, funny and quietly clever film.",
  regression: "A warm, funny and quietly clever film.",
};

let worker, manifest, vectors;
const waiting = new Map();
const times = [];

/** Ask the worker; gives its answer, or its error. */
export function ask(what, given) {
  const id = crypto.randomUUID();
  worker.postMessage({ id, what, given });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

function startWorker() {
  worker?.terminate();
  waiting.clear();
  worker = new Worker("worker.js");
  worker.onmessage = ({ data: { id, result, error } }) => {
    const { resolve, reject } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error) reject?.(new Error(error));
    else resolve?.(result);
  };
  worker.onerror = (event) => say("failed", event.message ?? "The worker can't start.");
}

function say(state, text) {
  at("status").dataset.state = state;
  at("status").textContent = text;
}

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

function fillChoices() {
  const has = (library) => manifest.artifacts.filter((one) => one.backend === BACKENDS[library]);
  const libraries = Object.keys(NAMES).filter((library) => has(library).length);
  if (!at("library").options.length) {
    at("library").replaceChildren(...libraries.map((one) => new Option(NAMES[one], one)));
  }
  const precisions = has(at("library").value).map((one) => one.precision);
  precisions.sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  const before = at("precision").value;
  at("precision").replaceChildren(...precisions.map((one) => new Option(one.toUpperCase(), one)));
  if (precisions.includes(before)) at("precision").value = before;
}

async function open() {
  say("busy", "Loading…");
  at("query").disabled = true;
  for (const id of ["size", "load", "speed", "test"]) at(id).textContent = "–";
  vectors = null;
  times.length = 0;
  startWorker();
  const mine = worker;
  try {
    const chosen = { library: at("library").value, precision: at("precision").value };
    const info = await ask("open", { folder: FOLDER, ...chosen });
    at("size").textContent = megabytes(info.sizeBytes);
    at("load").textContent = `${(info.loadMs / 1000).toFixed(1)} s`;
    at("test").textContent = "passed";
    at("test").title = `off by ${info.worst.toPrecision(2)}, allowed is ${info.tolerance.toPrecision(2)}`;
    at("query").disabled = false;
    say("ready", "Ready, without a network.");
    await answer();
  } catch (error) {
    if (mine !== worker) return; // another one was chosen meanwhile
    at("test").textContent = /^Self-test/.test(error.message) ? "failed" : "–";
    say("failed", error.message);
  }
}

async function run(texts) {
  const results = await ask("run", { texts });
  times.push(...results.map((one) => one.ms));
  times.splice(0, times.length - 50);
  const sorted = [...times].sort((a, b) => a - b);
  at("speed").textContent = `${sorted[Math.floor(sorted.length / 2)].toFixed(1)} ms`;
  return results;
}

let asked = 0;
async function answer() {
  const mine = ++asked;
  await new Promise((resolve) => setTimeout(resolve, 120)); // until typing pauses
  if (mine !== asked) return;
  const [found] = await run([at("query").value]);
  let rows;
  if (manifest.task === "feature-extraction") {
    const sentences = at("sentences").value.split("\n").filter((line) => line.trim());
    vectors ??= (await run(sentences)).map((one, i) => ({ text: sentences[i], row: one.row }));
    rows = vectors.map(({ text, row }) => ({ text, score: cosine(found.row, row) }));
    rows.sort((a, b) => b.score - a.score);
  } else if (manifest.task === "regression") {
    rows = [{ text: "score", score: found.row[0] }];
  } else {
    rows = found.labels.slice(0, 8).map(({ label, score }) => ({ text: label, score }));
  }
  if (mine !== asked) return;
  show(rows);
  at("note").textContent = found.dropped ? `The last ${found.dropped} tokens were too many and cut off.` : "";
}

function show(rows) {
  const percent = manifest.task === "text-classification";
  const items = rows.map(({ text, score }) => {
    const item = document.createElement("li");
    const name = document.createElement("span");
    const value = document.createElement("b");
    name.textContent = text;
    value.textContent = percent ? `${(100 * score).toFixed(1)} %` : score.toFixed(2);
    item.style.setProperty("--share", `${100 * Math.min(1, Math.max(0, score))}%`);
    item.append(name, value);
    return item;
  });
  at("results").replaceChildren(...items);
}

async function start() {
  const response = await fetch(`${FOLDER}edgebert.json`);
  if (!response.ok) throw new Error(`There is no bundle at ${FOLDER}: status ${response.status}.`);
  manifest = checkManifest(await response.json());
  if (manifest.pairs) throw new Error("The bundle takes pairs of texts; this page has one field.");
  fillChoices();
  const embeds = manifest.task === "feature-extraction";
  at("ask").textContent = embeds ? "Find the sentence that is closest to" : "Your text";
  at("query").value = EXAMPLES[manifest.task];
  at("sentences").value = SENTENCES.join("\n");
  at("more").hidden = !embeds;
  at("about").textContent = `${manifest.task}, up to ${manifest.max_length} tokens. Made with edgebert.`;
  at("library").addEventListener("change", () => (fillChoices(), open()));
  at("precision").addEventListener("change", open);
  const again = () => answer().catch((error) => say("failed", error.message));
  at("query").addEventListener("input", again);
  at("sentences").addEventListener("input", () => ((vectors = null), again()));
  await open();
}

globalThis.student = { ask }; // for the console, and for tests
start().catch((error) => say("failed", error.message));
