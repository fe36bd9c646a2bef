// A bundle opened by transformers.js (its ONNX artifact) or by LiteRT.js (its .tflite). Both give
// {encode(text, pair), run(encoding)}; the tokenizer is transformers.js's for both.

import { rowOf } from "./bundle.mjs";

// The library takes Chinese characters beyond 16 bits for letters; BERT puts spaces around them.
const RARE_CHINESE =
  /[\u{20000}-\u{2A6DF}\u{2A700}-\u{2B81F}\u{2B920}-\u{2CEAF}\u{2F800}-\u{2FA1F}]/gu;

/**
 * Give encode(): a text, or a pair, to {ids, types, dropped}, as edgebert does.
 *
 * `[CLS] a [SEP]` and `[CLS] a [SEP] b [SEP]` are put together here: the library's own truncation
 * cuts off the last [SEP], and it takes an empty second text for none. A text that spells a special
 * token, like "[SEP]", is plain text: so the library isn't told of the special ones.
 */
function encoder(transformers, files, manifest) {
  const kept = files.tokenizer.added_tokens.filter((token) => !token.special);
  const settings = { ...files.tokenizer, added_tokens: kept };
  const tokenizer = new transformers.PreTrainedTokenizer(settings, files.tokenizerConfig);
  const spaced = files.tokenizer.normalizer?.handle_chinese_chars;
  const idsOf = (text, add_special_tokens = false) =>
    tokenizer(spaced ? text.replace(RARE_CHINESE, " $& ") : text, {
      add_special_tokens,
      return_tensor: false,
    }).input_ids;
  const [cls, sep, ...others] = idsOf("", true);
  if (sep === undefined || others.length) throw new Error("The tokenizer has no [CLS] and [SEP] of BERT.");
  return (text, pair) => {
    const [a, b] = [idsOf(text), pair === undefined ? null : idsOf(pair)];
    const count = a.length + (b?.length ?? 0);
    const [keptA, keptB] = share(a.length, b?.length ?? 0, manifest.max_length - (b ? 3 : 2));
    const first = [cls, ...a.slice(0, keptA), sep];
    const second = b ? [...b.slice(0, keptB), sep] : [];
    return {
      ids: [...first, ...second],
      types: [...first.map(() => 0), ...second.map(() => 1)],
      dropped: count - keptA - keptB,
    };
  };
}

/** How many tokens of each text have room; the longer one is cut first. */
function share(a, b, room) {
  if (a + b <= room) return [a, b];
  const shorter = 2 * Math.min(a, b) > room ? Math.floor(room / 2) : Math.min(a, b);
  return a > b ? [room - shorter, shorter] : [shorter, room - shorter];
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
