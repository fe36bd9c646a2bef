/* What went wrong, in a sentence: every function that can fail returns -1 (or NULL) and fills it. */
#ifndef ERROR_H
#define ERROR_H
#include <stdarg.h>
#include <stdio.h>

struct error {
    char text[512];
};

/* Fill it, and give -1. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline int fail(struct error *error, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    vsnprintf(error->text, sizeof error->text, format, rest);
    va_end(rest);
    return -1;
}
#endif
