/* A bundle of edgebert that has an ONNX artifact: opened, tested, run. */
#ifndef BUNDLE_H
#define BUNDLE_H
#include "error.h"
#include "json.h"
#include "wordpiece.h"
#include <stddef.h>

struct engine; /* an open session of ONNX Runtime */

enum task { EMBED, CLASSIFY, REGRESS };

struct bundle {
    enum task task;
    struct json *manifest; /* edgebert.json */
    const struct json *artifact; /* of manifest: the one that runs */
    struct wordpiece *tokenizer;
    struct engine *engine;
    const char *pooling; /* "mean", "cls" or "max"; NULL where the graph pools */
    int normalize, pairs, several; /* several: each label has a probability of its own */
    size_t max_length;
    double worst; /* the largest difference that the self-test found */
};

/* Open a bundle and test it: its golden texts must give the ids, and the outputs, that its maker saw.
   `precision` is "fp32", "int8", …; NULL opens the tokenizer alone. -1 where anything is wrong. */
int bundle_open(struct bundle *bundle, const char *directory, const char *precision, struct error *error);
void bundle_close(struct bundle *bundle);

/* What the task makes of a text: its vector, the logits of the labels, or one score. The caller frees
   *row. `encoding` is what wordpiece_encode gave. */
int bundle_run(
    struct bundle *bundle, const struct encoding *encoding, float **row, size_t *width, struct error *error
);

/* Logits to probabilities, in place. */
void probabilities(float *row, size_t width, int several);
#endif
