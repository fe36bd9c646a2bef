#include "bundle.h"
#include "engine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEWEST_FORMAT = 3 };

static int text_is(const struct json *object, const char *key, const char *wanted) {
    const char *found = json_text(object, key);
    return found && !strcmp(found, wanted);
}

static int read_task(struct bundle *all, struct error *error) {
    const char *task = json_text(all->manifest, "task");
    double format = json_number(all->manifest, "format_version", 0);
    if (!task || format < 1) return fail(error, "edgebert.json is no manifest of a bundle.");
    if (format > NEWEST_FORMAT)
        return fail(error, "edgebert.json has format %g; this program knows up to %d.", format,
                    NEWEST_FORMAT);
    if (!strcmp(task, "feature-extraction")) all->task = EMBED;
    else if (!strcmp(task, "text-classification")) all->task = CLASSIFY;
    else if (!strcmp(task, "regression")) all->task = REGRESS;
    else return fail(error, "The task is %s; this program has no head for it.", task);
    all->pooling = json_text(all->manifest, "pooling");
    all->normalize = json_true(all->manifest, "normalize", 0);
    all->pairs = json_true(all->manifest, "pairs", 0);
    all->several = text_is(all->manifest, "problem_type", "multi_label_classification");
    all->max_length = (size_t)json_number(all->manifest, "max_length", 0);
    return 0;
}

/* The path of the artifact of a precision, which may not lead out of the bundle. */
static const char *find_artifact(struct bundle *all, const char *precision, struct error *error) {
    const struct json *list = json_get(all->manifest, "artifacts");
    for (const struct json *one = list ? list->first : NULL; one; one = one->next) {
        if (!text_is(one, "backend", "onnx") || !text_is(one, "precision", precision)) continue;
        const struct json *files = json_get(one, "files");
        const char *path = files ? json_text(files->first, "path") : NULL;
        if (!path || *path == '/' || strstr(path, "..")) break;
        all->artifact = one;
        return path;
    }
    fail(error, "The bundle has no %s artifact for onnx.", precision);
    return NULL;
}

static char *joined(const char *directory, const char *name) {
    size_t room = strlen(directory) + strlen(name) + 2;
    char *path = malloc(room);
    if (path) snprintf(path, room, "%s/%s", directory, name);
    return path;
}

/* Token vectors [seq, width] to one of the text; every token is a real one. */
static int pool(const char *how, const struct output *hidden, float *row, struct error *error) {
    size_t tokens = hidden->shape[1], width = hidden->shape[2];
    for (size_t d = 0; d < width; d++) {
        const float *at = hidden->values + d;
        double sum = 0, most = at[0];
        for (size_t t = 0; t < tokens; t++) {
            sum += at[t * width];
            if (at[t * width] > most) most = at[t * width];
        }
        if (!strcmp(how, "mean")) row[d] = (float)(sum / (double)tokens);
        else if (!strcmp(how, "cls")) row[d] = at[0];
        else if (!strcmp(how, "max")) row[d] = (float)most;
        else return fail(error, "The pooling is %s; allowed are mean, cls and max.", how);
    }
    return 0;
}

static int to_unit_length(float *row, size_t width, struct error *error) {
    double sum = 0;
    for (size_t d = 0; d < width; d++) sum += (double)row[d] * row[d];
    if (!(sum > 0)) return fail(error, "The vector is all zeros, or not finite.");
    for (size_t d = 0; d < width; d++) row[d] = (float)(row[d] / sqrt(sum));
    return 0;
}

static int embed(
    struct bundle *all, const struct encoding *in, float **row, size_t *width, struct error *error
) {
    struct output out;
    int pooled = engine_has_output(all->engine, "sentence_embedding");
    const char *name = pooled ? "sentence_embedding" : "last_hidden_state";
    if (!pooled && !all->pooling) return fail(error, "edgebert.json says no pooling.");
    if (engine_run(all->engine, in->ids, in->types, in->length, name, &out, error)) return -1;
    size_t rank = pooled ? 2 : 3;
    if (out.rank != rank) return free(out.values), fail(error, "%s has %zu dimensions.", name, out.rank);
    *width = out.shape[rank - 1];
    *row = pooled ? out.values : malloc(*width * sizeof **row);
    int bad = *row ? 0 : fail(error, "The memory is out.");
    if (!pooled) {
        bad = bad || pool(all->pooling, &out, *row, error);
        free(out.values);
    }
    bad = bad || (all->normalize && to_unit_length(*row, *width, error));
    if (bad) free(*row);
    return bad ? -1 : 0;
}

int bundle_run(
    struct bundle *all, const struct encoding *in, float **row, size_t *width, struct error *error
) {
    if (all->task == EMBED) return embed(all, in, row, width, error);
    struct output out;
    if (engine_run(all->engine, in->ids, in->types, in->length, "logits", &out, error)) return -1;
    *row = out.values;
    *width = out.count;
    return 0;
}

void probabilities(float *row, size_t width, int several) {
    double most = row[0], sum = 0;
    for (size_t i = 1; i < width; i++) most = row[i] > most ? row[i] : most;
    for (size_t i = 0; i < width; i++) {
        double small = exp(several ? -fabs((double)row[i]) : row[i] - most);
        if (several) small = (row[i] < 0 ? small : 1) / (1 + small);
        row[i] = (float)small;
        sum += small;
    }
    for (size_t i = 0; i < width && !several; i++) row[i] = (float)(row[i] / sum);
}

static int same_ids(
    const struct encoding *found, const struct json *expected, size_t i, struct error *error
) {
    const struct json *id = expected->first;
    for (size_t at = 0; at < found->length && id; at++, id = id->next)
        if (found->ids[at] != (int64_t)id->number) break;
    if (!id && expected->length == found->length) return 0;
    return fail(error, "Self-test: the tokenizer gives golden text %zu other ids than the bundle was "
                       "made with.", i);
}

static int same_row(
    struct bundle *all, const struct encoding *in, const struct json *expected, size_t i,
    struct error *error
) {
    float *row = NULL;
    size_t width = 0;
    double allowed = json_number(all->artifact, "tolerance", 0), worst = 0;
    if (bundle_run(all, in, &row, &width, error)) return -1;
    const struct json *value = expected->first;
    for (size_t d = 0; d < width && value; d++, value = value->next) {
        double off = fabs(row[d] - value->number);
        if (!isnan(worst) && !(off <= worst)) worst = off; /* NaN stays */
    }
    free(row);
    if (width != expected->length)
        return fail(error, "Self-test: golden text %zu gives %zu numbers, the bundle has %zu.", i, width,
                    expected->length);
    if (!(worst <= allowed))
        return fail(error, "Self-test: golden text %zu is off by %.3g, allowed is %.3g. Don't trust it "
                           "on this machine.", i, worst, allowed);
    if (worst > all->worst) all->worst = worst;
    return 0;
}

static int self_test(struct bundle *all, struct error *error) {
    const struct json *golden = json_get(all->manifest, "golden");
    const struct json *rows = json_get(all->artifact, "golden");
    const struct json *texts = json_get(golden, "texts"), *pairs = json_get(golden, "text_pairs");
    const struct json *ids = json_get(golden, "input_ids");
    if (!texts || !ids || texts->length == 0 || ids->length != texts->length)
        return fail(error, "The bundle has no golden texts, so it can't be tested.");
    if (all->engine && (!rows || rows->length != texts->length))
        return fail(error, "The artifact has no golden outputs, so it can't be tested.");
    const struct json *text = texts->first, *pair = pairs ? pairs->first : NULL, *id = ids->first;
    const struct json *row = all->engine ? rows->first : NULL;
    int bad = 0;
    for (size_t i = 0; text && !bad; i++, text = text->next, id = id->next) {
        struct encoding found;
        if (wordpiece_encode(all->tokenizer, text->text, text->length, pair ? pair->text : NULL,
                             pair ? pair->length : 0, all->max_length, &found, error))
            return -1;
        bad = same_ids(&found, id, i, error) || (row && same_row(all, &found, row, i, error));
        encoding_free(&found);
        pair = pair ? pair->next : NULL;
        row = row ? row->next : NULL;
    }
    return bad ? -1 : 0;
}

int bundle_open(struct bundle *all, const char *directory, const char *precision, struct error *error) {
    *all = (struct bundle){0};
    char *manifest = joined(directory, "edgebert.json");
    char *tokenizer = joined(directory, "tokenizer.json");
    all->manifest = manifest ? json_read(manifest, error) : NULL;
    int bad = !all->manifest || read_task(all, error);
    all->tokenizer = bad || !tokenizer ? NULL : wordpiece_open(tokenizer, error);
    bad = bad || !all->tokenizer;
    if (!bad && precision) {
        const char *name = find_artifact(all, precision, error);
        char *path = name ? joined(directory, name) : NULL;
        all->engine = path ? engine_open(path, error) : NULL;
        bad = !all->engine;
        free(path);
    }
    bad = bad || self_test(all, error);
    free(manifest);
    free(tokenizer);
    if (bad) bundle_close(all);
    return bad ? -1 : 0;
}

void bundle_close(struct bundle *all) {
    engine_close(all->engine);
    wordpiece_free(all->tokenizer);
    json_free(all->manifest);
    *all = (struct bundle){0};
}
