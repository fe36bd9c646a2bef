// What a bundle of edgebert says of itself (edgebert.json), and what follows: which file runs, the
// self-test, and how outputs become a vector or a label. The same file serves browser and Node.

const NEWEST_FORMAT = 3;
const TASKS = ["feature-extraction", "text-classification", "regression"];
export const BACKENDS = { transformers: "onnx", litert: "tflite" }; // by the name of the library

/** Check a manifest; throws an Error that says what to do. */
export function checkManifest(manifest) {
  if (!TASKS.includes(manifest.task)) {
    throw new Error(`The task is ${manifest.task}; this example shows ${TASKS.join(", ")}.`);
  }
  if (!(manifest.format_version <= NEWEST_FORMAT)) {
    throw new Error(`edgebert.json has format ${manifest.format_version}; known are up to ${NEWEST_FORMAT}.`);
  }
  return manifest;
}

/** Give the artifact of a library ("transformers", "litert") and a precision. */
export function findArtifact(manifest, library, precision) {
  const mine = manifest.artifacts.filter((one) => one.backend === BACKENDS[library]);
  const found = mine.find((one) => one.precision === precision);
  if (found) return found;
  const names = mine.map((one) => one.precision).join(", ") || "none";
  throw new Error(`The bundle has no ${precision} artifact for ${BACKENDS[library]}; it has: ${names}.`);
}

/** The bytes that a device loads: the artifact and the tokenizer. */
export function sizeOf(manifest, artifact) {
  const tokenizer = manifest.files.filter((one) => one.path.startsWith("tokenizer"));
  return [...artifact.files, ...tokenizer].reduce((sum, one) => sum + one.size_bytes, 0);
}

/**
 * What the task makes of one text's outputs: its vector, the logits of the labels, or one score.
 *
 * @param outputs by name, {data, dims}: of one text, dims [1, …]
 * @param tokens how many of its tokens are real; behind them is padding
 */
export function rowOf(manifest, outputs, tokens) {
  if (manifest.task !== "feature-extraction") return Array.from(outputs.logits.data);
  const row = outputs.sentence_embedding
    ? Array.from(outputs.sentence_embedding.data)
    : pool(manifest.pooling, outputs.last_hidden_state, tokens);
  if (!manifest.normalize) return row;
  const length = Math.hypot(...row);
  return row.map((value) => value / length);
}

function pool(how, hidden, tokens) {
  const width = hidden.dims[2];
  const of = (token, d) => hidden.data[token * width + d];
  return Array.from({ length: width }, (_, d) => {
    if (how === "cls") return of(0, d);
    const values = Array.from({ length: tokens }, (_, token) => of(token, d));
    if (how === "max") return Math.max(...values);
    if (how === "mean") return values.reduce((sum, value) => sum + value, 0) / tokens;
    throw new Error(`The pooling is ${how}; allowed are mean, cls and max.`);
  });
}

/** Logits to [{label, score}], the best first. */
export function labelsOf(manifest, logits) {
  const several = manifest.problem_type === "multi_label_classification";
  const most = Math.max(...logits);
  const raised = logits.map((x) => (several ? 1 / (1 + Math.exp(-x)) : Math.exp(x - most)));
  const sum = several ? 1 : raised.reduce((a, b) => a + b, 0);
  return manifest.labels
    .map((label, i) => ({ label, score: raised[i] / sum }))
    .sort((a, b) => b.score - a.score);
}

export function cosine(a, b) {
  const dot = a.reduce((sum, value, d) => sum + value * b[d], 0);
  return dot / (Math.hypot(...a) * Math.hypot(...b));
}

/**
 * Run the golden texts: their ids and outputs must be those that the bundle was made with.
 *
 * @param model what an opener of engines.mjs gives
 * @returns the largest difference that was found; throws where one is above the tolerance
 */
export async function selfTest(manifest, artifact, model) {
  const { texts, text_pairs: pairs, input_ids: ids } = manifest.golden;
  let worst = 0;
  for (const [i, text] of texts.entries()) {
    const encoding = model.encode(text, pairs?.[i]);
    if (String(encoding.ids) !== String(ids[i])) {
      throw new Error(`Self-test: the tokenizer gives golden text ${i} other ids than the bundle was made with.`);
    }
    const row = await model.run(encoding);
    const expected = artifact.golden[i];
    const off = Math.max(...row.map((value, d) => Math.abs(value - expected[d])));
    if (row.length !== expected.length || !(off <= artifact.tolerance)) {
      throw new Error(
        `Self-test: golden text ${i} is off by ${off.toPrecision(3)}, allowed is ` +
          `${artifact.tolerance.toPrecision(3)}. Don't trust it on this machine.`,
      );
    }
    worst = Math.max(worst, off);
  }
  return worst;
}
