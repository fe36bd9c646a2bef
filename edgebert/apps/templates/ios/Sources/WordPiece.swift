// Texts to token ids, as BERT's WordPiece does it. Swift alone, nothing of Foundation.

/// A text as ids, special tokens included; types are 1 for the second of two texts.
struct Encoding {
    var ids: [Int64] = []
    var types: [Int64] = []
}

/// What is put together for a text: a special token, or the text 0 or 1.
struct Piece: Decodable {
    let id: Int64?
    let text: Int?
    let type: Int64
}

/// Settings of app.json.
struct TokenizerSettings: Decodable {
    let vocab, characters, prefix: String
    let unk_id: Int64
    let max_chars: Int
    let single, pair: [Piece]
}

/// Reads vocab.txt and characters.txt; what their lines mean is said in README.md.
struct WordPiece {
    // Keys are scalars, not String: "é" and "e" with an accent are equal Strings in Swift.
    private var ids: [[UInt32]: Int64] = [:]
    private var becomes: [UInt32: [UInt32]] = [:]
    private var ranges: [Substring: [ClosedRange<UInt32>]] = [:]
    private var hangul = false
    private let settings: TokenizerSettings
    private let prefix: [UInt32]

    init(vocab: String, characters: String, settings: TokenizerSettings) {
        self.settings = settings
        prefix = settings.prefix.unicodeScalars.map(\.value)
        var token: [UInt32] = [], id: Int64 = 0
        for scalar in vocab.unicodeScalars { // not split: "\r\n" is one Character in Swift
            if scalar == "\n" {
                ids[token] = id
                (token, id) = ([], id + 1)
            } else {
                token.append(scalar.value)
            }
        }
        for line in characters.split(separator: "\n") {
            let words = line.split(separator: " ")
            let numbers = words.dropFirst().map { $0.split(separator: "-").map { UInt32($0, radix: 16)! } }
            switch words[0] {
            case "hangul": hangul = numbers[0][0] == 1
            case "map": becomes[numbers[0][0]] = numbers.dropFirst().map { $0[0] }
            default: ranges[words[0]] = numbers.map { $0[0]...$0[1] }
            }
        }
    }

    /// One text, or two that belong together.
    func encode(_ texts: [String], maxLength: Int) -> Encoding {
        let template = texts.count == 2 ? settings.pair : settings.single
        let tokens = texts.map(self.tokens)
        let room = maxLength - template.filter { $0.text == nil }.count
        let kept = texts.count == 2
            ? Self.longestFirst(tokens[0].count, tokens[1].count, room)
            : [min(tokens[0].count, room)]
        var made = Encoding()
        for item in template {
            let own = item.text.map { Array(tokens[$0].prefix(kept[$0])) } ?? [item.id!]
            made.ids += own
            made.types += own.map { _ in item.type }
        }
        return made
    }

    private func tokens(_ text: String) -> [Int64] {
        words(normalized(text)).flatMap(pieces)
    }

    private func normalized(_ text: String) -> [UInt32] {
        var made: [UInt32] = []
        for scalar in text.unicodeScalars {
            let c = scalar.value
            if let to = becomes[c] {
                made += to
            } else if hangul, (0xAC00...0xD7A3).contains(c) {
                made += Self.syllable(c - 0xAC00)
            } else if inside("drop", c) {
                continue
            } else if inside("space", c) {
                made.append(0x20)
            } else if inside("spaced", c) {
                made += [0x20, c, 0x20]
            } else {
                made.append(c)
            }
        }
        return made
    }

    private func words(_ text: [UInt32]) -> [[UInt32]] {
        var words: [[UInt32]] = [], word: [UInt32] = []
        for c in text {
            let white = inside("white", c), alone = inside("punctuation", c)
            if white || alone {
                if !word.isEmpty { words.append(word) }
                word = []
                if alone { words.append([c]) }
            } else {
                word.append(c)
            }
        }
        return word.isEmpty ? words : words + [word]
    }

    /// The longest pieces from the left; a word with a part that has none is unknown.
    private func pieces(_ word: [UInt32]) -> [Int64] {
        guard word.count <= settings.max_chars else { return [settings.unk_id] }
        var found: [Int64] = [], start = 0
        while start < word.count {
            var end = word.count, id: Int64?
            while end > start {
                id = ids[(start > 0 ? prefix : []) + word[start..<end]]
                if id != nil { break }
                end -= 1
            }
            guard let id else { return [settings.unk_id] }
            found.append(id)
            start = end
        }
        return found
    }

    private func inside(_ kind: Substring, _ c: UInt32) -> Bool {
        guard let rows = ranges[kind] else { return false }
        var low = 0, high = rows.count - 1
        while low <= high {
            let middle = (low + high) / 2
            if c < rows[middle].lowerBound { high = middle - 1 }
            else if c > rows[middle].upperBound { low = middle + 1 }
            else { return true }
        }
        return false
    }

    /// How many tokens of each of two texts stay: the longer one is cut first.
    static func longestFirst(_ first: Int, _ second: Int, _ room: Int) -> [Int] {
        if first + second <= room { return [first, second] }
        let short = min(first, second, room / 2)
        return first > second ? [room - short, short] : [short, room - short]
    }

    /// A Hangul syllable as its letters (Unicode, chapter 3.12).
    private static func syllable(_ s: UInt32) -> [UInt32] {
        [0x1100 + s / 588, 0x1161 + s % 588 / 28] + (s % 28 > 0 ? [0x11A7 + s % 28] : [])
    }
}
