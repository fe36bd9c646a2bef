// A student of edgebert on onnxruntime-web (or onnxruntime-node): tested first, then run.
import { WordPiece } from "./wordpiece.js";

/**
 * Opens the app's files, and reproduces the golden outputs before it gives anything back.
 *
 * ort: the module onnxruntime-web. read(name): the bytes of a file of assets/, as an ArrayBuffer or
 * Uint8Array. Throws an Error where ids or outputs aren't what the bundle's maker saw.
 */
export async function openEdgeBert(ort, read) {
  const text = async (name) => new TextDecoder().decode(await read(name));
  const app = JSON.parse(await text("app.json"));
  const { vocab, characters } = app.tokenizer;
  const words = new WordPiece(await text(vocab), await text(characters), app.tokenizer);
  const session = await ort.InferenceSession.create(new Uint8Array(await read(app.model.file)));
  const opened = new EdgeBert(ort, app, words, session);
  opened.worst = await opened.selfTest(JSON.parse(await text("golden.json")));
  return opened;
}

class EdgeBert {
  constructor(ort, app, words, session) {
    Object.assign(this, { ort, app, words, session, turn: Promise.resolve() });
  }

  /** The vector of a text; role is "query", "document" or nothing. */
  async encode(text, role) {
    this.check("feature-extraction");
    return this.row([((role && this.app.prompts[role]) || "") + text]);
  }

  /** {label: probability} of a text, or of two that belong together. */
  async classify(...texts) {
    this.check("text-classification");
    const several = this.app.problem_type === "multi_label_classification";
    const scores = probabilities(await this.row(texts), several);
    return Object.fromEntries(this.app.labels.map((label, i) => [label, scores[i]]));
  }

  /** The number that a regression gives a text, or two that belong together. */
  async score(...texts) {
    this.check("regression");
    return (await this.row(texts))[0];
  }

  check(task) {
    if (this.app.task !== task) throw new Error(`This student is for ${this.app.task}.`);
  }

  async row(texts) {
    if ((texts.length === 2) !== this.app.pairs) {
      throw new Error(this.app.pairs ? "Give two texts." : "Give one text.");
    }
    return this.run(this.words.encode(texts, this.app.max_length));
  }

  /** One text at a time: a session of onnxruntime-web can't run two at once. */
  async run(encoding) {
    const before = this.turn;
    let done;
    this.turn = new Promise((resolve) => (done = resolve));
    await before;
    try {
      return await this.outputs(encoding);
    } finally {
      done();
    }
  }

  async outputs({ ids, types }) {
    const tensor = (numbers) =>
      new this.ort.Tensor("int64", BigInt64Array.from(numbers, BigInt), [1, ids.length]);
    const given = { input_ids: ids, attention_mask: ids.map(() => 1), token_type_ids: types };
    const names = this.app.model.inputs.map((input) => input.name);
    const feeds = Object.fromEntries(names.map((name) => [name, tensor(given[name])]));
    const found = await this.session.run(feeds);
    if (this.app.task !== "feature-extraction") return Array.from(found.logits.data);
    const vector = found.sentence_embedding
      ? Array.from(found.sentence_embedding.data)
      : pool(found.last_hidden_state.data, ids.length, this.app.pooling);
    const length = this.app.normalize ? Math.hypot(...vector) : 1;
    return vector.map((value) => value / length);
  }

  async selfTest(golden) {
    let worst = 0;
    for (let i = 0; i < golden.texts.length; i++) {
      const texts = [golden.texts[i], ...(golden.text_pairs ? [golden.text_pairs[i]] : [])];
      const encoding = this.words.encode(texts, this.app.max_length);
      if (String(encoding.ids) !== String(golden.input_ids[i])) {
        throw new Error(`Golden text ${i} gives other ids: ${encoding.ids.slice(0, 12)}…`);
      }
      const row = await this.run(encoding);
      const off = row.map((value, k) => Math.abs(value - golden.outputs[i][k]));
      if (row.length !== golden.outputs[i].length || !off.every((d) => d <= golden.tolerance)) {
        throw new Error(`Golden text ${i} is off by ${Math.max(...off)}; don't use it here.`);
      }
      worst = Math.max(worst, ...off);
    }
    return worst;
  }
}

/** Token vectors, float32 [length, hidden] one after the other, to one of the text. */
function pool(hidden, length, how) {
  const size = hidden.length / length;
  const vector = Array.from(hidden.subarray(0, size));
  if (how === "cls") return vector;
  for (let token = 1; token < length; token++) {
    for (let k = 0; k < size; k++) {
      const value = hidden[token * size + k];
      vector[k] = how === "max" ? Math.max(vector[k], value) : vector[k] + value;
    }
  }
  return how === "max" ? vector : vector.map((value) => value / length);
}

function probabilities(logits, several) {
  if (several) return logits.map((logit) => 1 / (1 + Math.exp(-logit)));
  const most = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp(logit - most));
  const total = weights.reduce((sum, weight) => sum + weight);
  return weights.map((weight) => weight / total);
}
