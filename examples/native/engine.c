#include "engine.h"
#include <onnxruntime_c_api.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 8 };

struct engine {
    OrtEnv *env;
    OrtSession *session;
    char *inputs[MOST_NAMES], *outputs[MOST_NAMES];
    size_t input_count, output_count;
};

static const OrtApi *api(void) {
    return OrtGetApiBase()->GetApi(ORT_API_VERSION); /* NULL where the library is older */
}

const char *engine_version(void) {
    return OrtGetApiBase()->GetVersionString();
}

static int failed(OrtStatus *status, const char *doing, struct error *error) {
    if (!status) return 0;
    fail(error, "ONNX Runtime failed on %s: %.300s", doing, api()->GetErrorMessage(status));
    api()->ReleaseStatus(status);
    return -1;
}

typedef OrtStatus *(ORT_API_CALL *get_name)(const OrtSession *, size_t, OrtAllocator *, char **);

static int read_names(
    struct engine *all, size_t count, char **names, get_name get, struct error *error
) {
    OrtAllocator *allocator = NULL;
    if (failed(api()->GetAllocatorWithDefaultOptions(&allocator), "its allocator", error)) return -1;
    if (count > MOST_NAMES) return fail(error, "The model has %zu inputs or outputs.", count);
    for (size_t i = 0; i < count; i++) {
        char *name = NULL;
        if (failed(get(all->session, i, allocator, &name), "a name", error)) return -1;
        names[i] = strdup(name);
        OrtStatus *freed = api()->AllocatorFree(allocator, name);
        if (failed(freed, "a name", error) || !names[i]) return -1;
    }
    return 0;
}

static int open_session(struct engine *all, const char *path, struct error *error) {
    OrtSessionOptions *options = NULL;
    int bad = failed(api()->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "edgebert", &all->env), "start", error) ||
              failed(api()->CreateSessionOptions(&options), "its options", error) ||
              failed(api()->SetIntraOpNumThreads(options, 1), "its options", error) ||
              failed(api()->CreateSession(all->env, path, options, &all->session), path, error);
    if (options) api()->ReleaseSessionOptions(options);
    return bad;
}

struct engine *engine_open(const char *path, struct error *error) {
    if (!api()) {
        fail(error, "ONNX Runtime %s is older than its header here, which asks for API %d.",
             engine_version(), ORT_API_VERSION);
        return NULL;
    }
    struct engine *all = calloc(1, sizeof *all);
    if (!all) return fail(error, "The memory is out."), NULL;
    int bad = open_session(all, path, error) ||
              failed(api()->SessionGetInputCount(all->session, &all->input_count), path, error) ||
              failed(api()->SessionGetOutputCount(all->session, &all->output_count), path, error) ||
              read_names(all, all->input_count, all->inputs, api()->SessionGetInputName, error) ||
              read_names(all, all->output_count, all->outputs, api()->SessionGetOutputName, error);
    if (!bad) return all;
    engine_close(all);
    return NULL;
}

void engine_close(struct engine *all) {
    if (!all) return;
    for (size_t i = 0; i < MOST_NAMES; i++) {
        free(all->inputs[i]);
        free(all->outputs[i]);
    }
    if (all->session) api()->ReleaseSession(all->session);
    if (all->env) api()->ReleaseEnv(all->env);
    free(all);
}

int engine_has_output(const struct engine *all, const char *name) {
    for (size_t i = 0; i < all->output_count && i < MOST_NAMES; i++)
        if (!strcmp(all->outputs[i], name)) return 1;
    return 0;
}

/* The engine reads `values` in place: they must live as long as the input. */
static int make_input(const int64_t *values, size_t length, OrtValue **made, struct error *error) {
    OrtMemoryInfo *memory = NULL;
    const int64_t shape[2] = {1, (int64_t)length};
    void *data = (void *)(uintptr_t)values; /* the interface has no const; it isn't written */
    OrtStatus *status = api()->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory);
    int bad = failed(status, "an input", error);
    if (bad) return bad;
    status = api()->CreateTensorWithDataAsOrtValue(memory, data, length * sizeof *values, shape, 2,
                                                   ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, made);
    bad = failed(status, "an input", error);
    api()->ReleaseMemoryInfo(memory);
    return bad;
}

static int copy_output(OrtValue *value, struct output *out, struct error *error) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    int64_t shape[4] = {0};
    float *data = NULL;
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    int bad = failed(api()->GetTensorTypeAndShape(value, &info), "an output", error) ||
              failed(api()->GetTensorElementType(info, &type), "an output", error) ||
              failed(api()->GetDimensionsCount(info, &out->rank), "an output", error) ||
              failed(api()->GetTensorShapeElementCount(info, &out->count), "an output", error);
    if (!bad && (type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || out->rank > 4 || !out->count))
        bad = fail(error, "An output of the model is no float32 of up to 4 dimensions.");
    bad = bad || failed(api()->GetDimensions(info, shape, out->rank), "an output", error) ||
          failed(api()->GetTensorMutableData(value, (void **)&data), "an output", error);
    if (info) api()->ReleaseTensorTypeAndShapeInfo(info);
    if (bad) return -1;
    for (size_t i = 0; i < out->rank; i++) out->shape[i] = (size_t)shape[i];
    out->values = malloc(out->count * sizeof *out->values);
    if (!out->values) return fail(error, "The memory is out.");
    memcpy(out->values, data, out->count * sizeof *out->values);
    return 0;
}

int engine_run(
    struct engine *all, const int64_t *ids, const int64_t *types, size_t length, const char *name,
    struct output *out, struct error *error
) {
    OrtValue *inputs[MOST_NAMES] = {0}, *result = NULL;
    int64_t *mask = malloc(length * sizeof *mask);
    int bad = mask ? 0 : fail(error, "The memory is out.");
    for (size_t i = 0; i < length && mask; i++) mask[i] = 1;
    for (size_t i = 0; i < all->input_count && !bad; i++) {
        const char *wanted = all->inputs[i];
        const int64_t *values = !strcmp(wanted, "input_ids")        ? ids
                                : !strcmp(wanted, "attention_mask") ? mask
                                : !strcmp(wanted, "token_type_ids") ? types
                                                                    : NULL;
        if (!values) bad = fail(error, "The model has an unknown input %s.", wanted);
        else bad = make_input(values, length, &inputs[i], error);
    }
    *out = (struct output){0};
    bad = bad ||
          failed(api()->Run(all->session, NULL, (const char *const *)all->inputs,
                            (const OrtValue *const *)inputs, all->input_count, &name, 1, &result),
                 "a text", error) ||
          copy_output(result, out, error);
    for (size_t i = 0; i < MOST_NAMES; i++)
        if (inputs[i]) api()->ReleaseValue(inputs[i]);
    if (result) api()->ReleaseValue(result);
    free(mask);
    return bad ? -1 : 0;
}
