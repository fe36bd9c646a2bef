#include "wordpiece.h"
#include "json.h"
#include "normalize.h"
#include <stdlib.h>
#include <string.h>

struct slot {
    const char *token;
    size_t length;
    int64_t id;
};

struct wordpiece {
    struct json *file; /* owns the texts of the slots */
    struct slot *slots;
    size_t mask; /* number of slots, a power of two, less one */
    struct normalizer normalizer;
    const char *prefix;
    size_t prefix_length, longest_word, longest_token;
    int64_t unknown;
};

struct ids {
    int64_t *at;
    size_t length, room;
};

static size_t hash(const char *text, size_t length) { /* FNV-1a */
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < length; i++) sum = (sum ^ (unsigned char)text[i]) * 1099511628211u;
    return (size_t)(sum ^ sum >> 32);
}

static struct slot *slot_of(const struct wordpiece *all, const char *token, size_t length) {
    size_t at = hash(token, length) & all->mask;
    while (all->slots[at].token) {
        struct slot *one = &all->slots[at];
        if (one->length == length && !memcmp(one->token, token, length)) return one;
        at = (at + 1) & all->mask;
    }
    return &all->slots[at];
}

static int64_t id_of(const struct wordpiece *all, const char *token, size_t length) {
    const struct slot *found = slot_of(all, token, length);
    return found->token ? found->id : -1;
}

static int read_vocabulary(struct wordpiece *all, const struct json *vocab) {
    size_t room = 1;
    while (room < 2 * vocab->length + 2) room *= 2;
    all->slots = calloc(room, sizeof *all->slots);
    if (!all->slots) return -1;
    all->mask = room - 1;
    for (const struct json *one = vocab->first; one; one = one->next) {
        struct slot *slot = slot_of(all, one->key, one->key_length);
        *slot = (struct slot){one->key, one->key_length, (int64_t)one->number};
        if (one->key_length > all->longest_token) all->longest_token = one->key_length;
    }
    return 0;
}

static int is(const struct json *object, const char *type) {
    const char *found = json_text(object, "type");
    return found && !strcmp(found, type);
}

/* What this reader knows is what BERT's tokenizers have; another one must be refused, not guessed. */
static const char *unknown_part(const struct json *file) {
    if (!is(json_get(file, "model"), "WordPiece")) return "model";
    if (!is(json_get(file, "normalizer"), "BertNormalizer")) return "normalizer";
    if (!is(json_get(file, "pre_tokenizer"), "BertPreTokenizer")) return "pre_tokenizer";
    if (!is(json_get(file, "post_processor"), "TemplateProcessing")) return "post_processor";
    const struct json *added = json_get(file, "added_tokens");
    for (const struct json *one = added ? added->first : NULL; one; one = one->next)
        if (!json_true(one, "special", 0)) return "added_tokens"; /* found in the middle of a text */
    return NULL;
}

static int read_settings(struct wordpiece *all) {
    const struct json *how = json_get(all->file, "normalizer"), *model = json_get(all->file, "model");
    int lowercase = json_true(how, "lowercase", 1);
    all->normalizer = (struct normalizer){
        .clean_text = json_true(how, "clean_text", 1),
        .handle_chinese_chars = json_true(how, "handle_chinese_chars", 1),
        .strip_accents = json_true(how, "strip_accents", lowercase), /* null: as lowercase says */
        .lowercase = lowercase,
    };
    const char *unknown = json_text(model, "unk_token");
    all->prefix = json_text(model, "continuing_subword_prefix");
    const struct json *vocab = json_get(model, "vocab");
    all->longest_word = (size_t)json_number(model, "max_input_chars_per_word", 100);
    if (!unknown || !all->prefix || !vocab || read_vocabulary(all, vocab)) return -1;
    all->prefix_length = strlen(all->prefix);
    all->unknown = id_of(all, unknown, strlen(unknown));
    return all->unknown < 0 ? -1 : 0;
}

struct wordpiece *wordpiece_open(const char *path, struct error *error) {
    struct wordpiece *all = calloc(1, sizeof *all);
    if (!all) return fail(error, "The memory is out."), NULL;
    all->file = json_read(path, error);
    const char *part = all->file ? unknown_part(all->file) : NULL;
    if (part) fail(error, "%s: its %s is of a kind that only the tokenizers package reads.", path, part);
    else if (all->file && !read_settings(all)) return all;
    else if (all->file) fail(error, "%s: its model has no vocabulary with an unk_token.", path);
    wordpiece_free(all);
    return NULL;
}

void wordpiece_free(struct wordpiece *all) {
    if (!all) return;
    json_free(all->file);
    free(all->slots);
    free(all);
}

static int push_id(struct ids *out, int64_t id) {
    if (out->length == out->room) {
        size_t room = out->room ? 2 * out->room : 64;
        int64_t *at = realloc(out->at, room * sizeof *at);
        if (!at) return -1;
        out->at = at;
        out->room = room;
    }
    out->at[out->length++] = id;
    return 0;
}

/* The pieces of one word, the longest first; the unknown token where some part has none. */
static int push_word(const struct wordpiece *all, const uint32_t *word, size_t length, struct ids *out) {
    if (length > all->longest_word) return push_id(out, all->unknown);
    size_t kept = out->length, room = all->prefix_length + 4 * length;
    char *piece = malloc(room + 1);
    size_t *ends = malloc((length + 1) * sizeof *ends); /* where each character ends in piece */
    int bad = !piece || !ends ? -1 : 0;
    for (size_t start = 0, end = 0; start < length && !bad; start = end) {
        size_t bytes = start ? all->prefix_length : 0;
        memcpy(piece, all->prefix, bytes);
        for (end = start; end < length && bytes < all->longest_token; ends[end++] = bytes)
            bytes += to_utf8(word[end], piece + bytes);
        int64_t id = -1;
        while (end > start && (id = id_of(all, piece, ends[end - 1])) < 0) end--;
        if (end == start) {
            out->length = kept;
            bad = push_id(out, all->unknown);
            break;
        }
        bad = push_id(out, id);
    }
    free(piece);
    free(ends);
    return bad;
}

static int push_text(
    const struct wordpiece *all, const char *text, size_t length, struct ids *out, struct error *error
) {
    struct characters clean;
    int bad = normalize(&all->normalizer, text, length, &clean, error);
    for (size_t start = 0, end; start < clean.length && !bad; start = end) {
        enum class kind = class_of(clean.at[start]);
        for (end = start + 1; kind == IN_WORD && end < clean.length;) {
            if (class_of(clean.at[end]) != IN_WORD) break;
            end++;
        }
        if (kind != SPACE && push_word(all, clean.at + start, end - start, out))
            bad = fail(error, "The text is too large for the memory.");
    }
    free(clean.at);
    return bad;
}

/* One item of the template: ids[kept] of a text, or a special token. Gives how many it put. */
static size_t put_item(
    const struct json *file, const struct json *item, const struct ids texts[2], const size_t kept[2],
    const struct encoding *out, size_t at
) {
    const struct json *special = json_get(item, "SpecialToken"), *sequence = json_get(item, "Sequence");
    const struct json *which = special ? special : sequence;
    const char *name = json_text(which, "id");
    const int64_t *ids = NULL;
    int64_t one = 0;
    size_t count = 0;
    if (sequence && name) {
        ids = texts[*name == 'B'].at;
        count = kept[*name == 'B'];
    } else if (name) {
        const struct json *tokens = json_get(json_get(file, "post_processor"), "special_tokens");
        const struct json *list = json_get(json_get(tokens, name), "ids");
        if (list && list->first) {
            one = (int64_t)list->first->number;
            ids = &one;
            count = 1;
        }
    }
    for (size_t i = 0; i < count && out->ids; i++) {
        out->ids[at + i] = ids[i];
        out->types[at + i] = (int64_t)json_number(which, "type_id", 0);
    }
    return count;
}

/* Cut the longer text first, as the tokenizers package does; of two equal ones the first. */
static void share_room(const struct ids texts[2], size_t room, size_t kept[2]) {
    size_t a = texts[0].length, b = texts[1].length, shorter = a < b ? a : b;
    kept[0] = a, kept[1] = b;
    if (a + b <= room) return;
    if (2 * shorter > room) shorter = room / 2;
    kept[0] = a > b ? room - shorter : shorter;
    kept[1] = room - kept[0];
}

static int fill(
    const struct wordpiece *all, const struct ids texts[2], int paired, size_t max_length,
    struct encoding *out, struct error *error
) {
    const struct json *form = json_get(json_get(all->file, "post_processor"), paired ? "pair" : "single");
    const size_t none[2] = {0, 0};
    size_t kept[2], specials = 0, at = 0;
    for (const struct json *item = form ? form->first : NULL; item; item = item->next)
        specials += put_item(all->file, item, texts, none, out, 0);
    if (max_length <= specials)
        return fail(error, "max_length is %zu, but %zu tokens are special.", max_length, specials);
    share_room(texts, max_length - specials, kept);
    out->length = specials + kept[0] + kept[1];
    out->dropped = texts[0].length + texts[1].length - kept[0] - kept[1];
    out->ids = calloc(out->length + 1, sizeof *out->ids);
    out->types = calloc(out->length + 1, sizeof *out->types);
    if (!out->ids || !out->types) return fail(error, "The memory is out.");
    for (const struct json *item = form ? form->first : NULL; item; item = item->next)
        at += put_item(all->file, item, texts, kept, out, at);
    return 0;
}

int wordpiece_encode(
    const struct wordpiece *all, const char *text, size_t length, const char *pair, size_t pair_length,
    size_t max_length, struct encoding *out, struct error *error
) {
    struct ids texts[2] = {0};
    *out = (struct encoding){0};
    int bad = push_text(all, text, length, &texts[0], error);
    if (!bad && pair) bad = push_text(all, pair, pair_length, &texts[1], error);
    if (!bad) bad = fill(all, texts, pair != NULL, max_length, out, error);
    free(texts[0].at);
    free(texts[1].at);
    if (bad) encoding_free(out);
    return bad;
}

void encoding_free(struct encoding *encoding) {
    free(encoding->ids);
    free(encoding->types);
    *encoding = (struct encoding){0};
}
