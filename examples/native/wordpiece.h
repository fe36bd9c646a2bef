/* The tokenizer of a BERT bundle: tokenizer.json to ids, the same as the `tokenizers` package's. */
#ifndef WORDPIECE_H
#define WORDPIECE_H
#include "error.h"
#include <stddef.h>
#include <stdint.h>

struct wordpiece;

/* One text, or one pair, with its special tokens; free `ids` and `types` with encoding_free(). */
struct encoding {
    int64_t *ids, *types; /* [length]; types: 1 for the second text of a pair */
    size_t length, dropped; /* dropped: tokens cut off to fit */
};

/* Read a tokenizer.json; NULL where it can't be read, or is of another kind than BERT's. */
struct wordpiece *wordpiece_open(const char *path, struct error *error);
void wordpiece_free(struct wordpiece *tokenizer);

/* Encode a text of `length` bytes, and its pair unless that is NULL. A text that spells a special
   token, like "[SEP]", is plain text. Tokens are cut from the end, of the longer text first. */
int wordpiece_encode(
    const struct wordpiece *tokenizer, const char *text, size_t length, const char *pair,
    size_t pair_length, size_t max_length, struct encoding *out, struct error *error
);
void encoding_free(struct encoding *encoding);
#endif
