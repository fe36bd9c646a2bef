/* ONNX Runtime's C library, as far as a bundle needs it. */
#ifndef ENGINE_H
#define ENGINE_H
#include "error.h"
#include <stddef.h>
#include <stdint.h>

struct engine;

/* One output: float [1, …]; the caller frees `values`. */
struct output {
    float *values;
    size_t rank, shape[4], count;
};

struct engine *engine_open(const char *path, struct error *error);
void engine_close(struct engine *engine);
int engine_has_output(const struct engine *engine, const char *name);
/* Run one text of `length` tokens, all of them real, and fetch one output by name. */
int engine_run(
    struct engine *engine, const int64_t *ids, const int64_t *types, size_t length, const char *name,
    struct output *out, struct error *error
);
const char *engine_version(void);
#endif
