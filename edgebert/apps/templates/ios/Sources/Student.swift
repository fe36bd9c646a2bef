// A student of edgebert on ONNX Runtime: its files read, tested with its golden texts, then run.
import Foundation
import OnnxRuntimeBindings

struct App: Decodable {
    struct Model: Decodable {
        struct Port: Decodable { let name: String }
        let file: String
        let inputs, outputs: [Port]
    }
    let task: String
    let labels: [String]
    let problem_type, pooling: String?
    let pairs, normalize: Bool
    let max_length: Int
    let prompts: [String: String]
    let tokenizer: TokenizerSettings
    let model: Model
}

struct Golden: Decodable {
    let texts: [String]
    let text_pairs: [String]?
    let input_ids: [[Int64]]
    let outputs: [[Float]]
    let tolerance: Float
}

struct StudentError: Error, CustomStringConvertible {
    let description: String
}

/// One thread at a time. Making one throws where ids or outputs aren't what the bundle's maker saw.
final class Student {
    /// The largest difference that the self-test found.
    private(set) var worst: Float = 0
    private let app: App
    private let words: WordPiece
    private let environment: ORTEnv
    private let session: ORTSession

    /// - Parameter folder: where app.json is, as `Bundle.main.resourceURL!.appending(path: "Resources")`.
    init(folder: URL) throws {
        func read(_ name: String) throws -> Data { try Data(contentsOf: folder.appendingPathComponent(name)) }
        app = try JSONDecoder().decode(App.self, from: read("app.json"))
        words = WordPiece(
            vocab: String(decoding: try read(app.tokenizer.vocab), as: UTF8.self),
            characters: String(decoding: try read(app.tokenizer.characters), as: UTF8.self),
            settings: app.tokenizer
        )
        environment = try ORTEnv(loggingLevel: .warning)
        let model = folder.appendingPathComponent(app.model.file).path
        session = try ORTSession(env: environment, modelPath: model, sessionOptions: nil)
        try selfTest(JSONDecoder().decode(Golden.self, from: read("golden.json")))
    }

    /// The vector of a text; role is "query", "document" or nil.
    func encode(_ text: String, role: String? = nil) throws -> [Float] {
        try row("feature-extraction", [(role.flatMap { app.prompts[$0] } ?? "") + text])
    }

    /// The probability of each label, of a text or of two that belong together.
    func classify(_ texts: String...) throws -> [String: Float] {
        let logits = try row("text-classification", texts)
        let several = app.problem_type == "multi_label_classification"
        let most = logits.max() ?? 0
        let weights = logits.map { several ? 1 / (1 + exp(-$0)) : exp($0 - most) }
        let total = several ? 1 : weights.reduce(0, +)
        return Dictionary(uniqueKeysWithValues: zip(app.labels, weights.map { $0 / total }))
    }

    /// The number that a regression gives a text, or two that belong together.
    func score(_ texts: String...) throws -> Float { try row("regression", texts)[0] }

    private func row(_ task: String, _ texts: [String]) throws -> [Float] {
        guard app.task == task else { throw StudentError(description: "This student is for \(app.task).") }
        guard texts.count == (app.pairs ? 2 : 1) else {
            throw StudentError(description: app.pairs ? "Give two texts." : "Give one text.")
        }
        return try run(words.encode(texts, maxLength: app.max_length))
    }

    private func run(_ encoding: Encoding) throws -> [Float] {
        let count = encoding.ids.count
        let given = ["input_ids": encoding.ids, "token_type_ids": encoding.types]
        var feed: [String: ORTValue] = [:]
        for input in app.model.inputs {
            var numbers = given[input.name] ?? [Int64](repeating: 1, count: count) // attention_mask
            let data = NSMutableData(bytes: &numbers, length: 8 * count)
            feed[input.name] = try ORTValue(
                tensorData: data, elementType: .int64, shape: [1, NSNumber(value: count)])
        }
        let names = Set(app.model.outputs.map(\.name))
        let found = try session.run(withInputs: feed, outputNames: names, runOptions: nil)
        func values(_ name: String) throws -> [Float] {
            guard let data = try found[name]?.tensorData() as Data? else {
                throw StudentError(description: "The model gives no \(name).")
            }
            return data.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
        }
        guard app.task == "feature-extraction" else { return try values("logits") }
        let vector = names.contains("sentence_embedding")
            ? try values("sentence_embedding") : pool(try values("last_hidden_state"), count)
        let length = app.normalize ? vector.map { $0 * $0 }.reduce(0, +).squareRoot() : 1
        return vector.map { $0 / length }
    }

    /// hidden: [count, size] of the tokens, one after the other.
    private func pool(_ hidden: [Float], _ count: Int) -> [Float] {
        let size = hidden.count / count
        return (0..<size).map { k in
            let own = (0..<count).map { hidden[$0 * size + k] }
            switch app.pooling {
            case "cls": return own[0]
            case "max": return own.max()!
            default: return own.reduce(0, +) / Float(count)
            }
        }
    }

    private func selfTest(_ golden: Golden) throws {
        for i in golden.texts.indices {
            let texts = [golden.texts[i]] + (golden.text_pairs.map { [$0[i]] } ?? [])
            let encoding = words.encode(texts, maxLength: app.max_length)
            guard encoding.ids == golden.input_ids[i] else {
                throw StudentError(description: "Golden text \(i) has other ids.")
            }
            let found = try run(encoding)
            let off = zip(found, golden.outputs[i]).map { abs($0 - $1) }.max() ?? 0
            guard found.count == golden.outputs[i].count, off <= golden.tolerance else {
                throw StudentError(description: "Golden text \(i) is off by \(off); don't use it here.")
            }
            worst = max(worst, off)
        }
    }
}
