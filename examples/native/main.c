/* edgebert-run BUNDLE [PRECISION] < texts: one text a line in (of pairs, two with a tab between them),
   one line of JSON out. PRECISION is fp32 (the default), int8 or int4; "ids" gives token ids and runs no
   model. The bundle is tested with its golden texts first; nothing is answered where that fails. */
#include "bundle.h"
#include "engine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static void print_text(const char *text) {
    putchar('"');
    for (; *text; text++) {
        int plain = (unsigned char)*text >= 0x20 && *text != '"' && *text != '\\';
        if (plain) putchar(*text);
        else printf("\\u%04x", (unsigned)*text);
    }
    putchar('"');
}

static void print_row(const float *row, size_t width) {
    for (size_t i = 0; i < width; i++) printf("%s%.9g", i ? ", " : "[", (double)row[i]);
    putchar(']');
}

static void print_label(const struct bundle *bundle, float *row, size_t width) {
    const struct json *labels = json_get(bundle->manifest, "labels");
    const struct json *label = labels ? labels->first : NULL;
    size_t best = 0;
    printf(", \"logits\": ");
    print_row(row, width);
    probabilities(row, width, bundle->several);
    for (size_t i = 1; i < width; i++) best = row[i] > row[best] ? i : best;
    for (size_t i = 0; label && i < best; i++) label = label->next;
    printf(", \"label\": ");
    print_text(label && label->text ? label->text : "");
    printf(", \"score\": %.9g", (double)row[best]);
}

static void print_ids(const struct encoding *encoding) {
    for (size_t i = 0; i < encoding->length; i++)
        printf("%s%lld", i ? ", " : "[", (long long)encoding->ids[i]);
    puts("]");
}

static int answer(struct bundle *bundle, const struct encoding *encoding, struct error *error) {
    float *row = NULL;
    size_t width = 0;
    if (bundle_run(bundle, encoding, &row, &width, error)) return -1;
    printf("{\"dropped_tokens\": %zu", encoding->dropped);
    if (bundle->task == CLASSIFY) {
        print_label(bundle, row, width);
    } else {
        printf(", \"%s\": ", bundle->task == EMBED ? "vector" : "score");
        print_row(row, width);
    }
    puts("}");
    free(row);
    return 0;
}

static int one_line(struct bundle *bundle, char *line, size_t length, struct error *error) {
    struct encoding encoding;
    char *tab = bundle->pairs ? memchr(line, '\t', length) : NULL;
    if (bundle->pairs && !tab)
        return fail(error, "The bundle takes pairs: two texts with a tab between them.");
    size_t first = tab ? (size_t)(tab - line) : length;
    int bad = wordpiece_encode(bundle->tokenizer, line, first, tab ? tab + 1 : NULL,
                               tab ? length - first - 1 : 0, bundle->max_length, &encoding, error);
    if (bad) return bad;
    if (bundle->engine) bad = answer(bundle, &encoding, error);
    else print_ids(&encoding);
    encoding_free(&encoding);
    return bad;
}

int main(int count, char **given) {
    struct error error = {""};
    struct bundle bundle;
    if (count < 2 || count > 3) {
        fprintf(stderr, "usage: edgebert-run BUNDLE [fp32|int8|int4|ids] < texts\n");
        return 2;
    }
    const char *precision = count > 2 ? given[2] : "fp32";
    if (!strcmp(precision, "ids")) precision = NULL;
    if (bundle_open(&bundle, given[1], precision, &error)) {
        fprintf(stderr, "edgebert-run: %s\n", error.text);
        return 1;
    }
    fprintf(stderr, "self-test passed, off by %.3g; ONNX Runtime %s\n", bundle.worst, engine_version());
    char *line = NULL;
    size_t room = 0, number = 0;
    int bad = 0;
    for (ssize_t length; !bad && (length = getline(&line, &room, stdin)) >= 0; number++) {
        if (length && line[length - 1] == '\n') length--;
        bad = one_line(&bundle, line, (size_t)length, &error);
    }
    if (bad) fprintf(stderr, "edgebert-run: line %zu: %s\n", number, error.text);
    free(line);
    bundle_close(&bundle);
    if (fflush(stdout) || ferror(stdout) || ferror(stdin)) bad = 1;
    return bad ? 1 : 0;
}
