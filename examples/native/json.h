/* A reader of JSON files: a tree of values, enough for edgebert.json and tokenizer.json. */
#ifndef JSON_H
#define JSON_H
#include "error.h"
#include <stddef.h>

enum json_kind { JSON_NULL, JSON_TRUE, JSON_FALSE, JSON_NUMBER, JSON_STRING, JSON_LIST, JSON_OBJECT };

struct json {
    enum json_kind kind;
    char *key, *text; /* UTF-8, closed by a 0 that lengths don't count; there may be others inside */
    size_t key_length, length; /* length: of the text in bytes, or how many children */
    double number;
    struct json *first, *next; /* the first child; the next of the same parent */
};

/* Read a file, or give NULL. */
struct json *json_read(const char *path, struct error *error);
void json_free(struct json *value);

/* A member of an object, or NULL: of NULL and of what is no object, too. */
const struct json *json_get(const struct json *object, const char *key);
/* The text of a member, or NULL where it is no string. */
const char *json_text(const struct json *object, const char *key);
/* A number of a member, or `otherwise`. */
double json_number(const struct json *object, const char *key, double otherwise);
/* Whether a member is true; `otherwise` where it is neither true nor false. */
int json_true(const struct json *object, const char *key, int otherwise);
#endif
