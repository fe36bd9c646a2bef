// A bundle opened by transformers.js (its ONNX artifact) or by LiteRT.js (its .tflite). Both give
// {encode(text, pair), run(encoding)}; the tokenizer is transformers.js's for both.

import { rowOf } from "./bundle.mjs";

/**
 * Give encode(): a text, or a pair, to {ids, types, dropped}. A text that spells a special token,
 * like "[SEP]", is plain text, as in edgebert: so the library isn't told of the special ones.
 */
function encoder(transformers, files, manifest) {
  const kept = files.tokenizer.added_tokens.filter((token) => !token.special);
  const settings = { ...files.tokenizer, added_tokens: kept };
  const tokenizer = new transformers.PreTrainedTokenizer(settings, files.tokenizerConfig);
  const call = (text, options) =>
    tokenizer(text, { return_tensor: false, return_token_type_ids: true, ...options });
  return (text, pair) => {
    const whole = call(text, { text_pair: pair ?? null });
    const types = whole.token_type_ids ?? whole.input_ids.map(() => 0);
    const lengths = (pair === undefined ? [text] : [text, pair]).map(
      (one) => call(one, { add_special_tokens: false }).input_ids.length,
    );
    const kept = placesKept(whole.input_ids.length, lengths, manifest.max_length);
    return {
      ids: kept.map((place) => whole.input_ids[place]),
      types: kept.map((place) => types[place]),
      dropped: whole.input_ids.length - kept.length,
    };
  };
}

/**
 * Which tokens stay of `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`: the longer text is cut first. The
 * library's own truncation cuts off the last [SEP].
 */
function placesKept(count, [a, b = 0], maxLength) {
  const places = Array.from({ length: count }, (_, place) => place);
  if (count <= maxLength) return places;
  const room = maxLength - (count - a - b);
  const shorter = 2 * Math.min(a, b) > room ? Math.floor(room / 2) : Math.min(a, b);
  const [keptA, keptB] = a > b ? [room - shorter, shorter] : [shorter, room - shorter];
  return places.filter(
    (place) =>
      place < 1 + keptA || (place >= 1 + a && place < 2 + a + keptB) || place >= 2 + a + b,
  );
}

/** Where an artifact lies, in the words of transformers.js: onnx/model_quantized.onnx is dtype q8. */
function placeOf(artifact) {
  const [subfolder, name] = artifact.files[0].path.split("/");
  const endings = { _quantized: "q8", _int8: "int8", _q4: "q4", _fp16: "fp16" };
  const stem = name.replace(/\.onnx$/, "");
  const ending = Object.keys(endings).find((one) => stem.endsWith(one)) ?? "";
  return {
    subfolder,
    model_file_name: stem.slice(0, stem.length - ending.length),
    dtype: ending ? endings[ending] : "fp32",
  };
}

/**
 * Open the ONNX artifact.
 *
 * @param transformers the library; its env says where the bundle is (localModelPath)
 * @param name the bundle's folder under that
 * @param device "wasm" in a browser, "cpu" in Node
 */
export async function openTransformers(transformers, { name, device, files, manifest, artifact }) {
  const encode = encoder(transformers, files, manifest);
  const options = { ...placeOf(artifact), device, local_files_only: true };
  const model = await transformers.AutoModel.from_pretrained(name, options);
  const tensor = (values) =>
    new transformers.Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  const run = async ({ ids, types }) => {
    const outputs = await model({
      input_ids: tensor(ids),
      attention_mask: tensor(ids.map(() => 1)),
      token_type_ids: tensor(types),
    });
    return rowOf(manifest, outputs, ids.length);
  };
  return { encode, run };
}

/**
 * Open the .tflite: a signature for each of a few lengths (s8, s16, …); the shortest that holds a
 * text runs it.
 *
 * @param litert the library, with its WebAssembly loaded
 * @param bytes the file
 */
export async function openLiteRt(litert, transformers, { bytes, files, manifest }) {
  const encode = encoder(transformers, files, manifest);
  const model = await litert.loadAndCompile(bytes, { accelerator: "wasm" });
  const signatures = Object.values(model.signatures)
    .map((runner) => ({ runner, length: runner.getInputDetails()[0].shape[1] }))
    .sort((a, b) => a.length - b.length);
  const run = async ({ ids, types }) => {
    const found = signatures.find((one) => ids.length <= one.length);
    if (!found) throw new Error(`A text has ${ids.length} tokens; the model holds ${signatures.at(-1).length}.`);
    const values = { input_ids: ids, attention_mask: ids.map(() => 1), token_type_ids: types };
    const inputs = {};
    for (const { name } of found.runner.getInputDetails()) {
      const padded = new Int32Array(found.length);
      padded.set(values[name]);
      inputs[name] = new litert.Tensor(padded, [1, found.length]);
    }
    const tensors = await found.runner.run(inputs);
    const outputs = {};
    for (const { name, shape } of found.runner.getOutputDetails()) {
      outputs[name] = { data: tensors[name].toTypedArray().slice(), dims: Array.from(shape) };
    }
    for (const one of [...Object.values(inputs), ...Object.values(tensors)]) one.delete();
    return rowOf(manifest, outputs, ids.length);
  };
  return { encode, run };
}
