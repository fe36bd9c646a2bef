// A student of edgebert: its files read, tested with its golden texts, then run.
package edgebert

import kotlin.math.abs
import kotlin.math.exp
import kotlin.math.sqrt
import org.json.JSONArray
import org.json.JSONObject

/** Runs one text; Engine.kt has one. Gives each output by its name, flat. */
interface Engine : AutoCloseable {
    fun run(encoding: Encoding): Map<String, FloatArray>
}

/**
 * Opened with `Student(read, Engine)`; throws IllegalStateException where ids or outputs aren't what
 * the bundle's maker saw. One thread at a time.
 *
 * read gives the bytes of a file of assets, as `{ context.assets.open(it).readBytes() }`.
 */
class Student(read: (String) -> ByteArray, open: (JSONObject, ByteArray) -> Engine) : AutoCloseable {
    private val app = JSONObject(String(read("app.json"), Charsets.UTF_8))
    private val tokenizer = app.getJSONObject("tokenizer")
    private val words = WordPiece(
        String(read(tokenizer.getString("vocab")), Charsets.UTF_8),
        String(read(tokenizer.getString("characters")), Charsets.UTF_8),
        tokenizer.getInt("unk_id"),
        tokenizer.getString("prefix"),
        tokenizer.getInt("max_chars"),
        template("single"),
        template("pair"),
    )
    private val engine = open(app, read(app.getJSONObject("model").getString("file")))

    /** The largest difference that the self-test found. */
    val worst = selfTest(JSONObject(String(read("golden.json"), Charsets.UTF_8)))

    /** The vector of a text; role is "query", "document" or null. */
    fun encode(text: String, role: String? = null): FloatArray {
        val prompt = role?.let { app.getJSONObject("prompts").optString(it) } ?: ""
        return row("feature-extraction", listOf(prompt + text))
    }

    /** The probability of each label, of a text or of two that belong together. */
    fun classify(vararg texts: String): Map<String, Float> {
        val logits = row("text-classification", texts.toList())
        val several = app.getString("problem_type") == "multi_label_classification"
        val most = logits.max()
        val weights = logits.map { if (several) 1 / (1 + exp(-it)) else exp(it - most) }
        val total = if (several) 1f else weights.sum()
        val labels = app.getJSONArray("labels")
        return weights.indices.associate { labels.getString(it) to weights[it] / total }
    }

    /** The number that a regression gives a text, or two that belong together. */
    fun score(vararg texts: String): Float = row("regression", texts.toList())[0]

    override fun close() = engine.close()

    private fun row(task: String, texts: List<String>): FloatArray {
        require(app.getString("task") == task) { "This student is for ${app.getString("task")}." }
        val wanted = if (app.getBoolean("pairs")) 2 else 1
        require(texts.size == wanted) { "Give $wanted texts, not ${texts.size}." }
        return run(words.encode(texts, app.getInt("max_length")))
    }

    private fun run(encoding: Encoding): FloatArray {
        val outputs = engine.run(encoding)
        if (app.getString("task") != "feature-extraction") return outputs.getValue("logits")
        val vector = outputs["sentence_embedding"]
            ?: pool(outputs.getValue("last_hidden_state"), encoding.ids.size)
        if (!app.getBoolean("normalize")) return vector
        val length = sqrt(vector.sumOf { it.toDouble() * it }).toFloat()
        return FloatArray(vector.size) { vector[it] / length }
    }

    /** hidden: [length, size] of the real tokens, one after the other; padding may follow. */
    private fun pool(hidden: FloatArray, length: Int): FloatArray {
        val size = app.getInt("vector_size")
        val token = { t: Int, k: Int -> hidden[t * size + k] }
        return FloatArray(size) { k ->
            when (app.getString("pooling")) {
                "cls" -> token(0, k)
                "max" -> (0 until length).maxOf { token(it, k) }
                else -> ((0 until length).sumOf { token(it, k).toDouble() } / length).toFloat()
            }
        }
    }

    private fun selfTest(golden: JSONObject): Float {
        var worst = 0f
        val texts = golden.getJSONArray("texts")
        for (i in 0 until texts.length()) {
            val pair = golden.optJSONArray("text_pairs")?.let { listOf(it.getString(i)) }.orEmpty()
            val encoding = words.encode(listOf(texts.getString(i)) + pair, app.getInt("max_length"))
            val ids = golden.getJSONArray("input_ids").getJSONArray(i)
            check(encoding.ids.toList() == ids.map { it.toInt() }) { "Golden text $i has other ids." }
            val expected = golden.getJSONArray("outputs").getJSONArray(i).map { it.toFloat() }
            val found = run(encoding)
            val off = found.zip(expected) { one, other -> abs(one - other) }.maxOrNull() ?: 0f
            check(found.size == expected.size && off <= golden.getDouble("tolerance")) {
                "Golden text $i is off by $off; don't use this model on this device."
            }
            worst = maxOf(worst, off)
        }
        return worst
    }

    private fun template(name: String): List<Piece> {
        val items = tokenizer.getJSONArray(name)
        return (0 until items.length()).map { items.getJSONObject(it) }.map {
            Piece(it.optInt("id"), it.optInt("text", -1), it.getInt("type"))
        }
    }

    private fun <T> JSONArray.map(use: (Number) -> T): List<T> =
        (0 until length()).map { use(get(it) as Number) }
}
