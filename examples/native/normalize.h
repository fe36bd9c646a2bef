/* What BertNormalizer does with a text, and how BertPreTokenizer sees its characters. */
#ifndef NORMALIZE_H
#define NORMALIZE_H
#include "error.h"
#include <stddef.h>
#include <stdint.h>

struct characters {
    uint32_t *at;
    size_t length, room;
};

struct normalizer {
    int clean_text, handle_chinese_chars, strip_accents, lowercase;
};

/* Turn UTF-8 of `length` bytes, zeros among them, into normalized characters; 0, or -1 where it is
   no UTF-8 or memory is out. The caller frees out->at, whatever comes back. */
int normalize(
    const struct normalizer *how, const char *text, size_t length, struct characters *out, struct error *error
);

enum class { IN_WORD, SPACE, PUNCTUATION_MARK };
enum class class_of(uint32_t character);
/* Write a character as UTF-8; gives the number of bytes, up to 4. */
size_t to_utf8(uint32_t character, char *to);
#endif
