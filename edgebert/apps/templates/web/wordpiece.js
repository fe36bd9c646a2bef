// Texts to token ids, as BERT's WordPiece does it. No dependency; for browsers and Node.

/** Reads vocab.txt and characters.txt; what their lines mean is said in README.md. */
export class WordPiece {
  constructor(vocab, characters, settings) {
    this.ids = new Map(vocab.split("\n").slice(0, -1).map((token, id) => [token, id]));
    this.settings = settings;
    this.ranges = { drop: [], space: [], spaced: [], white: [], punctuation: [] };
    this.becomes = new Map();
    for (const line of characters.split("\n")) {
      const [kind, ...rest] = line.split(" ");
      const numbers = rest.map((word) => word.split("-").map((hex) => parseInt(hex, 16)));
      if (kind === "hangul") this.hangul = rest[0] === "1";
      else if (kind === "map") {
        const [[from], ...to] = numbers;
        this.becomes.set(from, String.fromCodePoint(...to.flat()));
      } else if (kind) this.ranges[kind] = numbers.filter(([first]) => !Number.isNaN(first));
    }
  }

  /** One text, or two that belong together: {ids, types}, special tokens included. */
  encode(texts, maxLength) {
    const template = texts.length === 2 ? this.settings.pair : this.settings.single;
    const tokens = texts.map((text) => this.tokens(text));
    const room = maxLength - template.filter((item) => "id" in item).length;
    const kept = texts.length === 2
      ? longestFirst(tokens[0].length, tokens[1].length, room)
      : [Math.min(tokens[0].length, room)];
    const ids = [], types = [];
    for (const item of template) {
      const own = "id" in item ? [item.id] : tokens[item.text].slice(0, kept[item.text]);
      for (const id of own) {
        ids.push(id);
        types.push(item.type);
      }
    }
    return { ids, types };
  }

  tokens(text) {
    const ids = [];
    for (const word of this.words(this.normalized(text))) this.pieces(word, ids);
    return ids;
  }

  normalized(text) {
    let made = "";
    for (const one of text) {
      const c = one.codePointAt(0);
      const to = this.becomes.get(c);
      if (to !== undefined) made += to;
      else if (this.hangul && c >= 0xac00 && c < 0xd7a4) made += syllable(c - 0xac00);
      else if (inside(this.ranges.drop, c)) continue;
      else if (inside(this.ranges.space, c)) made += " ";
      else if (inside(this.ranges.spaced, c)) made += ` ${one} `;
      else made += one;
    }
    return made;
  }

  /** Words, each a list of characters. */
  words(text) {
    const words = [];
    let word = [];
    const end = () => {
      if (word.length) words.push(word);
      word = [];
    };
    for (const one of text) {
      const c = one.codePointAt(0);
      if (inside(this.ranges.white, c)) end();
      else if (inside(this.ranges.punctuation, c)) {
        end();
        words.push([one]);
      } else word.push(one);
    }
    end();
    return words;
  }

  /** The longest pieces from the left; a word with a part that has none is unknown. */
  pieces(word, ids) {
    const { prefix, max_chars, unk_id } = this.settings;
    const found = [];
    for (let start = 0; start < word.length && word.length <= max_chars; ) {
      let end = word.length, id;
      for (; end > start; end--) {
        id = this.ids.get((start ? prefix : "") + word.slice(start, end).join(""));
        if (id !== undefined) break;
      }
      if (id === undefined) break;
      found.push(id);
      start = end;
      if (start === word.length) return void ids.push(...found);
    }
    ids.push(unk_id);
  }
}

/** How many tokens of each of two texts stay: the longer one is cut first. */
function longestFirst(first, second, room) {
  if (first + second <= room) return [first, second];
  const short = Math.min(first, second, Math.floor(room / 2));
  return first > second ? [room - short, short] : [short, room - short];
}

/** A Hangul syllable as its letters (Unicode, chapter 3.12). */
function syllable(s) {
  const letters = [0x1100 + Math.floor(s / 588), 0x1161 + Math.floor((s % 588) / 28)];
  return String.fromCodePoint(...letters, ...(s % 28 ? [0x11a7 + (s % 28)] : []));
}

function inside(ranges, c) {
  let low = 0, high = ranges.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (c < ranges[middle][0]) high = middle - 1;
    else if (c > ranges[middle][1]) low = middle + 1;
    else return true;
  }
  return false;
}
