#include "json.h"
#include "normalize.h"
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

struct reader {
    const char *at, *end;
    const char *fault;
};

static struct json *value(struct reader *in, int depth);

static void skip_space(struct reader *in) {
    while (in->at < in->end && strchr(" \t\r\n", *in->at) && *in->at) in->at++;
}

static int take(struct reader *in, char wanted) {
    skip_space(in);
    if (in->at >= in->end || *in->at != wanted) return 0;
    in->at++;
    return 1;
}

static void *fault(struct reader *in, const char *what) {
    if (!in->fault) in->fault = what;
    return NULL;
}

static long hex4(struct reader *in) {
    long code = 0;
    if (in->end - in->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef", c = *in->at++;
        const char *found = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!found) return -1;
        code = code * 16 + (found - digits);
    }
    return code;
}

static char *escaped(struct reader *in, char *to) {
    const char *names = "\"\\/bfnrt", *values = "\"\\/\b\f\n\r\t";
    char c = in->at < in->end ? *in->at++ : 0;
    const char *found = c ? strchr(names, c) : NULL;
    if (found) {
        *to++ = values[found - names];
        return to;
    }
    long code = c == 'u' ? hex4(in) : -1;
    if (code >= 0xD800 && code < 0xDC00 && in->end - in->at > 1 && !memcmp(in->at, "\\u", 2)) {
        in->at += 2;
        long low = hex4(in);
        code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00 : -1;
    }
    if (code < 0 || (code >= 0xD800 && code < 0xE000)) return fault(in, "a wrong escape");
    return to + to_utf8((uint32_t)code, to);
}

/* The text after its opening quote; the caller frees it. */
static char *string(struct reader *in, size_t *length) {
    const char *close = in->at;
    while (close < in->end && *close != '"') close += *close == '\\' && close + 1 < in->end ? 2 : 1;
    if (close >= in->end) return fault(in, "a text without an end");
    char *text = malloc((size_t)(close - in->at) + 1), *to = text;
    if (!text) return fault(in, "too large for the memory");
    while (in->at < close) {
        if (*in->at != '\\') {
            *to++ = *in->at++;
            continue;
        }
        in->at++;
        to = escaped(in, to);
        if (!to) {
            free(text);
            return NULL;
        }
    }
    in->at = close + 1;
    *to = 0;
    *length = (size_t)(to - text);
    return text;
}

static int children(struct reader *in, struct json *parent, char close, int depth) {
    struct json **last = &parent->first;
    if (take(in, close)) return 0;
    do {
        size_t length = 0;
        char *key = NULL;
        if (close == '}') {
            if (!take(in, '"')) return fault(in, "a member without a name"), -1;
            key = string(in, &length);
            if (!key) return -1;
            if (!take(in, ':')) return free(key), fault(in, "a name without a value"), -1;
        }
        *last = value(in, depth + 1);
        if (!*last) return free(key), -1;
        (*last)->key = key;
        (*last)->key_length = length;
        last = &(*last)->next;
        parent->length++;
    } while (take(in, ','));
    return take(in, close) ? 0 : (fault(in, "a list without an end"), -1);
}

static int word(struct reader *in, const char *name) {
    size_t length = strlen(name);
    if ((size_t)(in->end - in->at) < length || memcmp(in->at, name, length)) return 0;
    in->at += length;
    return 1;
}

static int scalar(struct reader *in, struct json *made) {
    char *end = NULL; /* the file is closed by a 0, so strtod stops in it */
    if (word(in, "null")) return 0;
    if (word(in, "true")) return made->kind = JSON_TRUE, 0;
    if (word(in, "false")) return made->kind = JSON_FALSE, 0;
    made->number = strtod(in->at, &end);
    if (end == in->at) return fault(in, "no value"), -1;
    in->at = end;
    return made->kind = JSON_NUMBER, 0;
}

static struct json *value(struct reader *in, int depth) {
    if (depth > DEEPEST) return fault(in, "lists in lists without end");
    struct json *made = calloc(1, sizeof *made);
    if (!made) return fault(in, "too large for the memory");
    int bad;
    if (take(in, '"')) {
        made->kind = JSON_STRING;
        made->text = string(in, &made->length);
        bad = made->text ? 0 : -1;
    } else if (take(in, '{')) {
        made->kind = JSON_OBJECT;
        bad = children(in, made, '}', depth);
    } else if (take(in, '[')) {
        made->kind = JSON_LIST;
        bad = children(in, made, ']', depth);
    } else {
        bad = scalar(in, made);
    }
    if (!bad) return made;
    json_free(made);
    return NULL;
}

static char *whole_file(const char *path, size_t *size, struct error *error) {
    FILE *file = fopen(path, "rb");
    if (!file) return fail(error, "%s can't be opened.", path), NULL;
    char *text = NULL;
    long end = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    if (end >= 0 && !fseek(file, 0, SEEK_SET)) text = malloc((size_t)end + 1);
    if (text && fread(text, 1, (size_t)end, file) != (size_t)end) {
        free(text);
        text = NULL;
    }
    fclose(file);
    if (!text) return fail(error, "%s can't be read.", path), NULL;
    text[*size = (size_t)end] = 0;
    return text;
}

struct json *json_read(const char *path, struct error *error) {
    size_t size = 0;
    char *text = whole_file(path, &size, error);
    if (!text) return NULL;
    struct reader in = {text, text + size, NULL};
    struct json *made = value(&in, 0);
    skip_space(&in);
    if (made && in.at != in.end) {
        fault(&in, "something behind its end");
        json_free(made);
        made = NULL;
    }
    if (!made) fail(error, "%s is no JSON: %s at byte %zu.", path, in.fault, (size_t)(in.at - text));
    free(text);
    return made;
}

void json_free(struct json *made) {
    while (made) {
        struct json *next = made->next;
        json_free(made->first);
        free(made->key);
        free(made->text);
        free(made);
        made = next;
    }
}

const struct json *json_get(const struct json *object, const char *key) {
    if (!object || object->kind != JSON_OBJECT) return NULL;
    for (const struct json *one = object->first; one; one = one->next)
        if (!strcmp(one->key, key)) return one;
    return NULL;
}

const char *json_text(const struct json *object, const char *key) {
    const struct json *found = json_get(object, key);
    return found && found->kind == JSON_STRING ? found->text : NULL;
}

double json_number(const struct json *object, const char *key, double otherwise) {
    const struct json *found = json_get(object, key);
    return found && found->kind == JSON_NUMBER ? found->number : otherwise;
}

int json_true(const struct json *object, const char *key, int otherwise) {
    const struct json *found = json_get(object, key);
    if (!found || (found->kind != JSON_TRUE && found->kind != JSON_FALSE)) return otherwise;
    return found->kind == JSON_TRUE;
}
