/* A step of a Transformer decoder for the hypotheses of one sentence (weft.models.transformer_decoder), in one call. */

#include "kernels.h"
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Norm norms[3];
    Linear query_key_value, output, query, source_output, linear1, linear2;
    float *tokens;              /* (capacity, queries + keys + values): those of the tokens of all hypotheses */
    const float *keys, *values; /* (key-value heads, source tokens, head width) */
    const float *bias;          /* (heads, bias_stride) of the distance 0, 1, ...; or NULL */
    float *source_weights;      /* (rows, heads, source tokens), to be written; or NULL */
} Layer;

typedef struct {
    Layer *layers;
    const float *mask; /* (source tokens) */
    const float *turns; /* (positions, head width / 2) pairs cos, sin; NULL: positions are not rotary */
    Norm final_norm;
    int32_t count, width, heads, kv_heads, head_width, inner, activation, is_pre_norm, source, bias_stride, threads;
} Decoder;

enum { RELU, GELU, GELU_TANH, SILU, GATED = 16 };

static float activated(int kind, float x) {
    switch (kind) {
    case RELU: return x > 0.0f ? x : 0.0f;
    case GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case GELU_TANH: return 0.5f * x * (1.0f + hyperbolic_tangent(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    default: return x * sigmoid(x);
    }
}

/* In place; of a gated kind, the second half of each row is the factor. Rows become `inner` wide. */
static void activate(float *x, int rows, int inner, int kind) {
    int of = kind & ~GATED, is_gated = kind & GATED, width = is_gated ? 2 * inner : inner;
    for (int r = 0; r < rows; r++) {
        float *from = x + (long)r * width, *to = x + (long)r * inner;
        if (of == RELU && !is_gated) {
            for (int i = 0; i < inner; i++) to[i] = from[i] > 0.0f ? from[i] : 0.0f;
            continue;
        }
        for (int i = 0; i < inner; i++) to[i] = activated(of, from[i]) * (is_gated ? from[inner + i] : 1.0f);
    }
}

static void rotate(float *x, const float *turn, int heads, int width) {
    for (int h = 0; h < heads; h++, x += width)
        for (int i = 0; i < width; i += 2) {
            float real = x[i], imaginary = x[i + 1];
            x[i] = real * turn[i] - imaginary * turn[i + 1];
            x[i + 1] = real * turn[i + 1] + imaginary * turn[i];
        }
}

typedef struct {
    const Decoder *decoder;
    const Layer *layer;
    const int64_t *ancestors;
    const float *queries;
    float *out, *weights; /* weights: (rows, longest) */
    int time, stored, longest;
} Attention;

/* A row over its own tokens: `ancestors` (rows, time + 1) are their places. */
static void attend_to_history(void *data, int row) {
    const Attention *a = data;
    const Decoder *d = a->decoder;
    const int width = d->head_width, length = a->time + 1, shared = d->heads / d->kv_heads;
    const long size = (long)(d->heads + 2 * d->kv_heads) * width;
    const int64_t *places = a->ancestors + (long)row * length;
    const float *own = a->layer->tokens + (a->stored + row) * size;
    float scale = 1.0f / sqrtf((float)width), *out = a->out + (long)row * d->heads * width;
    float *weights = a->weights + (long)row * a->longest;
    for (int h = 0; h < d->heads; h++) {
        const long key = (long)(d->heads + h / shared) * width, value = key + (long)d->kv_heads * width;
        for (int t = 0; t < length; t++)
            weights[t] = scale * dot(own + h * width, a->layer->tokens + places[t] * size + key, width)
                + (a->layer->bias ? a->layer->bias[(long)h * d->bias_stride + a->time - t] : 0.0f);
        softmax(weights, length);
        memset(out + h * width, 0, width * sizeof(float));
        for (int t = 0; t < length; t++)
            add_scaled(out + h * width, weights[t], a->layer->tokens + places[t] * size + value, width);
    }
}

static void attend_to_source(void *data, int row) {
    const Attention *a = data;
    const Decoder *d = a->decoder;
    const int width = d->head_width, shared = d->heads / d->kv_heads;
    float scale = 1.0f / sqrtf((float)width), *out = a->out + (long)row * d->heads * width;
    float *buffer = a->weights + (long)row * a->longest, *kept = a->layer->source_weights;
    for (int h = 0; h < d->heads; h++) {
        const float *query = a->queries + ((long)row * d->heads + h) * width;
        const float *keys = a->layer->keys + (long)(h / shared) * d->source * width;
        const float *values = a->layer->values + (long)(h / shared) * d->source * width;
        float *weights = kept ? kept + ((long)row * d->heads + h) * d->source : buffer;
        for (int s = 0; s < d->source; s++)
            weights[s] = scale * dot(query, keys + (long)s * width, width) + d->mask[s];
        softmax(weights, d->source);
        memset(out + h * width, 0, width * sizeof(float));
        for (int s = 0; s < d->source; s++) add_scaled(out + h * width, weights[s], values + (long)s * width, width);
    }
}

/* The input of a sub-layer, and the stream after its output was added. */
static const float *input(const Decoder *d, const Norm *norm, const float *stream, int rows, float *buffer) {
    if (!d->is_pre_norm) return stream;
    normalize(norm, stream, rows, d->width, buffer);
    return buffer;
}

static void add(const Decoder *d, const Norm *norm, float *stream, int rows, const float *output) {
    for (long i = 0; i < (long)rows * d->width; i++) stream[i] += output[i];
    if (!d->is_pre_norm) normalize(norm, stream, rows, d->width, stream);
}

/* `stream` (rows, width), in place; the rows' tokens are put at the places `stored`, `stored` + 1, ... Returns -1 if
there is no memory, else 0. */
int weft_transformer_step(
    const Decoder *d, float *stream, int rows, int time, int stored, const int64_t *ancestors) {
    const int queries = d->heads * d->head_width, all = queries + 2 * d->kv_heads * d->head_width;
    const int wide = d->activation & GATED ? 2 * d->inner : d->inner;
    const int longest = d->source > time + 1 ? d->source : time + 1;
    float *buffer = malloc(sizeof(float) * rows * (2L * d->width + 2L * queries + wide + longest));
    if (!buffer) return -1;
    float *normal = buffer, *output = normal + (long)rows * d->width, *projected = output + (long)rows * d->width;
    float *attended = projected + (long)rows * queries, *hidden = attended + (long)rows * queries;
    float *weights = hidden + (long)rows * wide;
    int result = 0;
    for (int number = 0; number < d->count; number++) {
        const Layer *layer = d->layers + number;
        const Norm *norms = layer->norms;
        Attention attention = {d, layer, ancestors, projected, attended, weights, time, stored, longest};
        int history_threads = (long)rows * (time + 1) * queries > 32768 ? d->threads : 1;
        int source_threads = (long)rows * d->source * queries > 32768 ? d->threads : 1;

        float *tokens = layer->tokens + (long)stored * all;
        result |= linear(&layer->query_key_value, input(d, norms, stream, rows, normal), d->width, rows, tokens, d->threads);
        if (d->turns)
            for (int r = 0; r < rows; r++) rotate(tokens + (long)r * all, d->turns + (long)time * d->head_width, d->heads + d->kv_heads, d->head_width);
        parallel(attend_to_history, &attention, rows, history_threads);
        result |= linear(&layer->output, attended, queries, rows, output, d->threads);
        add(d, norms, stream, rows, output);

        result |= linear(&layer->query, input(d, norms + 1, stream, rows, normal), d->width, rows, projected, d->threads);
        parallel(attend_to_source, &attention, rows, source_threads);
        result |= linear(&layer->source_output, attended, queries, rows, output, d->threads);
        add(d, norms + 1, stream, rows, output);

        result |= linear(&layer->linear1, input(d, norms + 2, stream, rows, normal), d->width, rows, hidden, d->threads);
        activate(hidden, rows, d->inner, d->activation);
        result |= linear(&layer->linear2, hidden, d->inner, rows, output, d->threads);
        add(d, norms + 2, stream, rows, output);
    }
    normalize(&d->final_norm, stream, rows, d->width, stream);
    free(buffer);
    return result;
}

/* A search steps the decoder: a row's ancestors follow from the rows that it and those before it continue. */
typedef struct {
    const Decoder *decoder;
    const float *embedding; /* (vocabulary, width) */
    const float *positions; /* (positions, width), added to the embeddings; or NULL */
    float scale;            /* of embeddings */
    int64_t *places, *next; /* (rows, time + 1): places of the tokens of every row */
    int stored;
} Steps;

static int step(void *data, const int64_t *tokens, const int64_t *parents, int rows, int time, float *stream) {
    Steps *steps = data;
    const Decoder *d = steps->decoder;
    for (int r = 0; r < rows; r++) {
        const float *row = steps->embedding + tokens[r] * d->width;
        for (int i = 0; i < d->width; i++)
            stream[(long)r * d->width + i]
                = row[i] * steps->scale + (steps->positions ? steps->positions[(long)time * d->width + i] : 0.0f);
        memcpy(steps->next + (long)r * (time + 1), steps->places + parents[r] * time, sizeof(int64_t) * time);
        steps->next[(long)r * (time + 1) + time] = steps->stored + r;
    }
    int64_t *other = steps->places;
    steps->places = steps->next, steps->next = other;
    steps->stored += rows;
    return weft_transformer_step(d, stream, rows, time, steps->stored - rows, steps->places);
}

typedef struct {
    const float *embedding, *positions;
    float scale;
} Tokens;

/* Greedy search, or with `beam` a beam search, as in search.h; the pool has room for `longest` tokens of every row. */
int weft_transformer_search(
    const Decoder *d, const Tokens *embedded, const Search *search, const BeamSearch *beam, int64_t *tokens,
    float *log_probs) {
    const long count = (long)(beam ? beam->size : 1) * (search->longest + 1);
    int64_t *places = malloc(sizeof(int64_t) * 2 * count);
    if (!places) return -1;
    Steps steps = {d, embedded->embedding, embedded->positions, embedded->scale, places, places + count, 0};
    Model model = {step, &steps, d->width, d->threads};
    int result = beam ? beam_search(&model, search, beam) : greedy_search(&model, search, tokens, log_probs);
    free(places);
    return result;
}

int weft_linear(const Linear *map, const float *x, int rows, float *y, int threads) {
    return linear(map, x, map->inputs, rows, y, threads);
}
