/* A step of a Transformer decoder for the hypotheses of one sentence (weft.models.transformer_decoder), in one call. */

#include "beam.h"
#include "kernels.h"

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

typedef struct {
    Linear output;
    const float *embedding; /* (vocabulary, width) */
    const float *positions; /* (positions, width), added to the embeddings; or NULL */
    float scale;            /* of embeddings */
    int32_t begin, end, longest;
} Search;

static void embed(const Decoder *d, const Search *search, int64_t token, int time, float *stream) {
    const float *row = search->embedding + token * d->width;
    for (int i = 0; i < d->width; i++)
        stream[i] = row[i] * search->scale + (search->positions ? search->positions[(long)time * d->width + i] : 0.0f);
}

/* Greedy search: tokens, each with its log p, up to the end token or `longest` of them. Returns how many; -1: no
memory. */
int weft_transformer_greedy(const Decoder *d, const Search *search, int64_t *tokens, float *log_probs) {
    float *stream = malloc(sizeof(float) * (d->width + search->output.outputs)), *logits = stream + d->width;
    int64_t *ancestors = malloc(sizeof(int64_t) * search->longest);
    int time = 0, is_short = !stream || !ancestors;
    for (long token = search->begin; !is_short && time < search->longest;) {
        embed(d, search, token, time, stream);
        ancestors[time] = time;
        is_short = weft_transformer_step(d, stream, 1, time, time, ancestors)
            || linear(&search->output, stream, d->width, 1, logits, d->threads);
        if (is_short) break;
        float largest;
        token = first_largest(logits, search->output.outputs, &largest);
        log_probs[time] = largest - log_sum_exp(logits, search->output.outputs, largest);
        tokens[time++] = token;
        if (token == search->end || !isfinite(log_probs[time - 1])) break;
    }
    free(stream);
    free(ancestors);
    return is_short ? -1 : time;
}

typedef struct {
    int32_t size, needed;
    int32_t longest_phrase, copies, tokens; /* of loops, which are forbidden (weft.search.repetition); 0: allowed */
    const float *penalties;                 /* of hypotheses of 1, 2, ... tokens */
    Beam steps;                             /* `size` values of every step, one of `following` and `stopped` */
} BeamSearch;

/* Whether a token after `length` others is the end of a loop. */
static int is_loop(const BeamSearch *beam, const int64_t *history, int length, int64_t token) {
    for (int period = 1; period <= beam->longest_phrase && period <= length; period++) {
        int run = beam->copies * period > beam->tokens ? beam->copies * period : beam->tokens, same = 0;
        if (run > length + 1 || history[length - period] != token) continue;
        while (same < run - period - 1 && history[length - 1 - same] == history[length - 1 - same - period]) same++;
        if (same >= run - period - 1) return 1;
    }
    return 0;
}

/* Beam search: the records of all steps. Returns how many there are; -1: no memory; -2: a loop would have to be avoided,
or a score is not a number. The vocabulary has at least 2 `size` tokens, and the decoder's pool has room for `size`
`longest` of them. */
int weft_transformer_beam(const Decoder *d, const Search *search, const BeamSearch *beam) {
    const int size = beam->size, many = 2 * size, longest = search->longest, vocabulary = search->output.outputs;
    float *floats = malloc(sizeof(float) * size * ((long)d->width + vocabulary + 5));
    int64_t *ints = malloc(sizeof(int64_t) * size * (4L * (longest + 1) + 5));
    if (!floats || !ints) {
        free(floats);
        free(ints);
        return -1;
    }
    float *stream = floats, *logits = stream + (long)size * d->width, *best = logits + (long)size * vocabulary;
    float *sums = best + many, *scores = sums + size;
    int64_t *places = ints, *next_places = places + (long)size * (longest + 1);
    int64_t *history = next_places + (long)size * (longest + 1), *next_history = history + (long)size * (longest + 1);
    int64_t *parents = next_history + (long)size * (longest + 1), *tokens = parents + many, *current = tokens + many;
    int64_t finished = 0;
    int result = 0, rows = 1, stored = 0;
    current[0] = search->begin;
    scores[0] = 0.0f;
    while (result >= 0 && result < longest) {
        const int time = result;
        for (int r = 0; r < rows; r++) {
            embed(d, search, current[r], time, stream + (long)r * d->width);
            places[(long)r * (time + 1) + time] = stored + r;
        }
        if (weft_transformer_step(d, stream, rows, time, stored, places)
            || linear(&search->output, stream, d->width, rows, logits, d->threads)) {
            result = -1;
            break;
        }
        stored += rows;
        weft_log_sum_exp(logits, rows, vocabulary, sums, d->threads);
        int is_plain = 1;
        for (int r = 0; r < rows; r++) {
            is_plain &= isfinite(sums[r]) != 0;
            sums[r] = scores[r] - sums[r];
        }
        is_plain &= weft_top_k(logits, sums, rows, vocabulary, many, best, parents, tokens) == many;
        for (int i = 0; is_plain && i < many; i++)
            is_plain = best[i] == -INFINITY || (isfinite(best[i])
                && !is_loop(beam, history + parents[i] * longest, time, tokens[i]));
        if (!is_plain) {
            result = -2;
            break;
        }
        Beam record = beam->steps;
        const long at = (long)time * size;
        record.parents += at, record.tokens += at, record.end_parents += at, record.ranking += at;
        record.end_totals += at, record.end_ranking += at, record.ends += at, record.totals += at;
        record.following += time, record.stopped += time;
        record.finished = &finished;
        record.scores = scores;
        Step step = {search->end, size, beam->needed, time, longest, beam->penalties[time]};
        weft_beam_update(&step, best, parents, tokens, many, &record);
        for (int k = 0; k < size; k++) {
            const long parent = record.parents[k];
            memcpy(next_history + (long)k * longest, history + parent * longest, sizeof(int64_t) * time);
            next_history[(long)k * longest + time] = current[k] = record.tokens[k];
            memcpy(next_places + (long)k * (time + 2), places + parent * (time + 1), sizeof(int64_t) * (time + 1));
        }
        int64_t *other = history;
        history = next_history, next_history = other;
        other = places;
        places = next_places, next_places = other;
        rows = size;
        result++;
        if (*record.stopped) break;
    }
    free(floats);
    free(ints);
    return result;
}

int weft_linear(const Linear *map, const float *x, int rows, float *y, int threads) {
    return linear(map, x, map->inputs, rows, y, threads);
}
