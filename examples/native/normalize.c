#include "normalize.h"
#include "unicode_tables.h"
#include <stdlib.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define HAS(table, c) (find((table), COUNT(table), sizeof((table)[0]), (c)) != NULL)

/* The row of a table whose first two numbers enclose the character. */
static const struct range *find(const void *table, size_t count, size_t size, uint32_t c) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct range *row = (const void *)((const char *)table + middle * size);
        if (c < row->first) high = middle;
        else if (c > row->last) low = middle + 1;
        else return row;
    }
    return NULL;
}

static int push(struct characters *out, uint32_t c) {
    if (out->length == out->room) {
        size_t room = out->room ? 2 * out->room : 256;
        uint32_t *at = realloc(out->at, room * sizeof *at);
        if (!at) return -1;
        out->at = at;
        out->room = room;
    }
    out->at[out->length++] = c;
    return 0;
}

/* The character at *at, which is moved behind it; -1 where the bytes are no UTF-8. */
static int32_t from_utf8(const unsigned char **at, const unsigned char *end) {
    uint32_t c = *(*at)++;
    if (c < 0x80) return (int32_t)c;
    int more = c >= 0xC2 && c < 0xE0 ? 1 : c >= 0xE0 && c < 0xF0 ? 2 : c >= 0xF0 && c < 0xF5 ? 3 : 0;
    if (!more || end - *at < more) return -1;
    c &= 0x3Fu >> more;
    for (int i = 0; i < more; i++) {
        if ((**at & 0xC0) != 0x80) return -1;
        c = c << 6 | (*(*at)++ & 0x3Fu);
    }
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    return c < least[more] || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF ? -1 : (int32_t)c;
}

size_t to_utf8(uint32_t c, char *to) {
    if (c < 0x80) return to[0] = (char)c, 1;
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    to[0] = (char)((0xFF00u >> (more + 1) & 0xFF) | c >> (6 * more));
    for (int i = 1; i <= more; i++) to[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3F));
    return (size_t)more + 1;
}

static int push_cleaned(const struct normalizer *how, struct characters *out, uint32_t c) {
    if (how->clean_text && HAS(DROPPED, c)) return 0;
    if (how->clean_text && HAS(CLEANED_TO_SPACE, c)) c = ' ';
    if (!how->handle_chinese_chars || !HAS(CHINESE, c)) return push(out, c);
    return push(out, ' ') || push(out, c) || push(out, ' ') ? -1 : 0;
}

/* Canonical decomposition: Hangul by arithmetic (Unicode, chapter 3.12), others by the table. */
static int push_parts(struct characters *out, uint32_t c) {
    if (c >= 0xAC00 && c < 0xD7A4) {
        uint32_t s = c - 0xAC00;
        if (push(out, 0x1100 + s / 588) || push(out, 0x1161 + s % 588 / 28)) return -1;
        return s % 28 ? push(out, 0x11A7 + s % 28) : 0;
    }
    size_t low = 0, high = COUNT(PARTS);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (PARTS[middle].from < c) low = middle + 1;
        else high = middle;
    }
    if (low == COUNT(PARTS) || PARTS[low].from != c) return push(out, c);
    for (int i = 0; i < 4 && PARTS[low].to[i]; i++)
        if (push(out, PARTS[low].to[i])) return -1;
    return 0;
}

struct mark {
    uint32_t order, character;
    size_t place;
};

static uint32_t order_of(uint32_t c) {
    const void *row = find(ORDERS, COUNT(ORDERS), sizeof ORDERS[0], c);
    return row ? ((const struct order *)row)->order : 0;
}

static int by_order(const void *a, const void *b) {
    const struct mark *left = a, *right = b;
    if (left->order != right->order) return left->order < right->order ? -1 : 1;
    return left->place < right->place ? -1 : 1;
}

/* Put each run of marks in canonical order. */
static int reorder(struct characters *all) {
    for (size_t start = 0, end; start < all->length; start = end + 1) {
        for (end = start; end < all->length && order_of(all->at[end]);) end++;
        size_t count = end - start;
        if (count < 2) continue;
        struct mark *marks = malloc(count * sizeof *marks);
        if (!marks) return -1;
        for (size_t i = 0; i < count; i++)
            marks[i] = (struct mark){order_of(all->at[start + i]), all->at[start + i], i};
        qsort(marks, count, sizeof *marks, by_order);
        for (size_t i = 0; i < count; i++) all->at[start + i] = marks[i].character;
        free(marks);
    }
    return 0;
}

static int strip_accents(struct characters *all) {
    struct characters parts = {0};
    int bad = 0;
    for (size_t i = 0; i < all->length && !bad; i++) bad = push_parts(&parts, all->at[i]);
    bad = bad || reorder(&parts);
    size_t kept = 0;
    for (size_t i = 0; i < parts.length; i++)
        if (!HAS(MARKS, parts.at[i])) parts.at[kept++] = parts.at[i];
    parts.length = kept;
    free(all->at);
    *all = parts;
    return bad ? -1 : 0;
}

static int lowercase(struct characters *all) {
    struct characters low = {0};
    int bad = 0;
    for (size_t i = 0; i < all->length && !bad; i++) {
        uint32_t c = all->at[i];
        const void *row = find(LOWER, COUNT(LOWER), sizeof LOWER[0], c);
        const struct lower *run = row;
        if (c == 0x130) bad = push(&low, 'i') || push(&low, 0x307); /* the one that becomes two */
        else if (!run || (c - run->first) % run->step) bad = push(&low, c);
        else bad = push(&low, (uint32_t)((int32_t)c + run->distance));
    }
    free(all->at);
    *all = low;
    return bad ? -1 : 0;
}

int normalize(
    const struct normalizer *how, const char *text, size_t length, struct characters *out, struct error *error
) {
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    *out = (struct characters){0};
    int bad = 0;
    while (at < end && !bad) {
        size_t place = (size_t)(at - (const unsigned char *)text);
        int32_t c = from_utf8(&at, end);
        if (c < 0) return fail(error, "The text is no UTF-8 at byte %zu; convert it.", place);
        bad = push_cleaned(how, out, (uint32_t)c);
    }
    if (how->strip_accents) bad = bad || strip_accents(out);
    if (how->lowercase) bad = bad || lowercase(out);
    return bad ? fail(error, "The text is too large for the memory.") : 0;
}

enum class class_of(uint32_t c) {
    if (HAS(SPACES, c)) return SPACE;
    return HAS(PUNCTUATION, c) ? PUNCTUATION_MARK : IN_WORD;
}
