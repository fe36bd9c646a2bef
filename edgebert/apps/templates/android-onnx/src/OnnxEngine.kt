// A student on ONNX Runtime.
package edgebert

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import java.nio.LongBuffer
import org.json.JSONObject

class OnnxEngine(app: JSONObject, model: ByteArray) : Engine {
    private val environment = OrtEnvironment.getEnvironment()
    private val session = environment.createSession(model)

    override fun run(encoding: Encoding): Map<String, FloatArray> {
        val shape = longArrayOf(1, encoding.ids.size.toLong())
        val feed = HashMap<String, OnnxTensor>()
        for (name in session.inputNames) {
            val numbers = LongArray(encoding.ids.size) {
                when (name) {
                    "input_ids" -> encoding.ids[it].toLong()
                    "attention_mask" -> 1L
                    else -> encoding.types[it].toLong()
                }
            }
            feed[name] = OnnxTensor.createTensor(environment, LongBuffer.wrap(numbers), shape)
        }
        try {
            session.run(feed).use { found ->
                return found.associate { (name, value) ->
                    val values = (value as OnnxTensor).floatBuffer
                    name to FloatArray(values.remaining()).also { values.get(it) }
                }
            }
        } finally {
            feed.values.forEach { it.close() }
        }
    }

    override fun close() = session.close()
}
