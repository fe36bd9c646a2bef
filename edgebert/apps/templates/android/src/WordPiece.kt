// Texts to token ids, as BERT's WordPiece does it. Kotlin alone, nothing of Android.
package edgebert

/** A text as ids, special tokens included; types are 1 for the second of two texts. */
class Encoding(val ids: IntArray, val types: IntArray)

/** What is put together for a text: a special token, where text is -1, or the text 0 or 1. */
class Piece(val id: Int, val text: Int, val type: Int)

/** Reads vocab.txt and characters.txt; what their lines mean is said in README.md. */
class WordPiece(
    vocab: String,
    characters: String,
    private val unkId: Int,
    private val prefix: String,
    private val maxChars: Int,
    private val single: List<Piece>,
    private val pair: List<Piece>,
) {
    private val ids = HashMap<String, Int>()
    private val becomes = HashMap<Int, String>()
    private val ranges = HashMap<String, IntArray>() // first, last, first, last …
    private var hangul = false

    init {
        vocab.removeSuffix("\n").split("\n").forEachIndexed { id, token -> ids[token] = id }
        for (line in characters.split("\n").filter { it.isNotEmpty() }) {
            val words = line.split(" ").filter { it.isNotEmpty() }
            val rest = words.drop(1)
            when (words[0]) {
                "hangul" -> hangul = rest[0] == "1"
                "map" -> becomes[rest[0].toInt(16)] = text(rest.drop(1).map { it.toInt(16) })
                else -> ranges[words[0]] =
                    rest.flatMap { it.split("-") }.map { it.toInt(16) }.toIntArray()
            }
        }
    }

    /** One text, or two that belong together. */
    fun encode(texts: List<String>, maxLength: Int): Encoding {
        val template = if (texts.size == 2) pair else single
        val tokens = texts.map { tokens(it) }
        val room = maxLength - template.count { it.text < 0 }
        val kept =
            if (texts.size == 2) longestFirst(tokens[0].size, tokens[1].size, room)
            else listOf(minOf(tokens[0].size, room))
        val found = ArrayList<Int>()
        val types = ArrayList<Int>()
        for (item in template) {
            val own = if (item.text < 0) listOf(item.id) else tokens[item.text].take(kept[item.text])
            found.addAll(own)
            own.forEach { _ -> types.add(item.type) }
        }
        return Encoding(found.toIntArray(), types.toIntArray())
    }

    private fun tokens(text: String): List<Int> {
        val found = ArrayList<Int>()
        words(normalized(text)).forEach { pieces(it, found) }
        return found
    }

    private fun normalized(text: String): String {
        val made = StringBuilder()
        for (c in codePoints(text)) {
            val to = becomes[c]
            when {
                to != null -> made.append(to)
                hangul && c in 0xAC00..0xD7A3 -> made.append(syllable(c - 0xAC00))
                inside("drop", c) -> {}
                inside("space", c) -> made.append(' ')
                inside("spaced", c) -> made.append(' ').appendCodePoint(c).append(' ')
                else -> made.appendCodePoint(c)
            }
        }
        return made.toString()
    }

    /** Words, each a list of characters. */
    private fun words(text: String): List<List<Int>> {
        val words = ArrayList<List<Int>>()
        var word = ArrayList<Int>()
        fun end() {
            if (word.isNotEmpty()) words.add(word)
            word = ArrayList()
        }
        for (c in codePoints(text)) {
            if (inside("white", c)) end()
            else if (inside("punctuation", c)) {
                end()
                words.add(listOf(c))
            } else word.add(c)
        }
        end()
        return words
    }

    /** The longest pieces from the left; a word with a part that has none is unknown. */
    private fun pieces(word: List<Int>, found: MutableList<Int>) {
        val own = ArrayList<Int>()
        var start = 0
        while (start < word.size && word.size <= maxChars) {
            var end = word.size
            var id: Int? = null
            while (end > start) {
                id = ids[(if (start > 0) prefix else "") + text(word.subList(start, end))]
                if (id != null) break
                end--
            }
            if (id == null) break
            own.add(id)
            start = end
        }
        if (start == word.size) found.addAll(own) else found.add(unkId)
    }

    private fun inside(kind: String, c: Int): Boolean {
        val rows = ranges[kind] ?: return false
        var low = 0
        var high = rows.size / 2 - 1
        while (low <= high) {
            val middle = (low + high) / 2
            if (c < rows[2 * middle]) high = middle - 1
            else if (c > rows[2 * middle + 1]) low = middle + 1
            else return true
        }
        return false
    }

    companion object {
        /** How many tokens of each of two texts stay: the longer one is cut first. */
        fun longestFirst(first: Int, second: Int, room: Int): List<Int> {
            if (first + second <= room) return listOf(first, second)
            val short = minOf(first, second, room / 2)
            return if (first > second) listOf(room - short, short) else listOf(short, room - short)
        }

        /** A Hangul syllable as its letters (Unicode, chapter 3.12). */
        private fun syllable(s: Int): String {
            val letters = listOf(0x1100 + s / 588, 0x1161 + s % 588 / 28)
            return text(if (s % 28 > 0) letters + (0x11A7 + s % 28) else letters)
        }

        private fun text(codePoints: List<Int>): String =
            StringBuilder().apply { codePoints.forEach { appendCodePoint(it) } }.toString()

        private fun codePoints(text: String): List<Int> {
            val found = ArrayList<Int>(text.length)
            var at = 0
            while (at < text.length) {
                found.add(text.codePointAt(at))
                at += Character.charCount(found.last())
            }
            return found
        }
    }
}
