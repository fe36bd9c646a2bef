// A student on LiteRT: the shortest signature that holds a text is run.
package edgebert

import java.nio.ByteBuffer
import java.nio.ByteOrder
import org.json.JSONObject
import org.tensorflow.lite.Interpreter

class TfliteEngine(app: JSONObject, model: ByteArray) : Engine {
    private val padId = app.getJSONObject("tokenizer").getInt("pad_id")
    private val signatures = app.getJSONObject("model").getJSONArray("signatures").let { all ->
        (0 until all.length()).map { all.getJSONObject(it) }
            .map { it.getString("key") to it.getInt("length") }
    }
    private val interpreter = Interpreter(
        ByteBuffer.allocateDirect(model.size).order(ByteOrder.nativeOrder()).put(model),
        Interpreter.Options().setNumThreads(2),
    )

    override fun run(encoding: Encoding): Map<String, FloatArray> {
        val count = encoding.ids.size
        val (key, length) = signatures.firstOrNull { it.second >= count }
            ?: throw IllegalArgumentException("No signature holds $count tokens.")
        val inputs = interpreter.getSignatureInputs(key).associateWith<String, Any> { name ->
            val numbers = IntArray(length) {
                when {
                    it >= count -> if (name == "input_ids") padId else 0
                    name == "input_ids" -> encoding.ids[it]
                    name == "attention_mask" -> 1
                    else -> encoding.types[it]
                }
            }
            arrayOf(numbers) // int32 [1, length]
        }
        val outputs = interpreter.getSignatureOutputs(key).associateWith<String, Any> { name ->
            val values = interpreter.getOutputTensorFromSignature(name, key).numElements()
            ByteBuffer.allocateDirect(4 * values).order(ByteOrder.nativeOrder())
        }
        interpreter.runSignature(inputs, outputs, key)
        return outputs.mapValues { (_, buffer) ->
            val values = (buffer as ByteBuffer).apply { rewind() }.asFloatBuffer()
            FloatArray(values.remaining()).also { values.get(it) }
        }
    }

    override fun close() = interpreter.close()
}
