/* A step of a recurrent decoder for the hypotheses of one sentence (weft.models.recurrent_decoder), within a search. */

#include "kernels.h"
#include "search.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Linear input, state;  /* of the gates; a joint map of [x; h] has no second one */
    const float *initial; /* (parts, hidden): h, and the cell of an LSTM */
} Layer;

typedef struct {
    Layer *layers;
    const float *embedding;     /* (vocabulary, embedded) */
    const float *summary;       /* (summarized), an input of every step; or NULL */
    const float *keys, *values; /* (source, key width), (source, context) */
    const float *mask;          /* (source) */
    const float *vector;        /* of a hidden layer's score; NULL: q k */
    Linear query;               /* of a hidden layer's score */
    Linear readout;             /* without outputs: the state itself is read */
    int32_t count, cell, hidden, embedded, summarized, key_width, context, source, size;
    int32_t attends, is_fed, reads_embedding, threads;
} Decoder;

enum { RNN, GRU, LSTM };
enum { NOWHERE, BEFORE, AFTER };

typedef struct {
    const Decoder *decoder;
    float *now, *before; /* (rows, row size): states of all layers, then the attentional state, if it is fed */
    float *joint, *gates, *others, *context, *query, *weights, *read;
} Steps;

static int parts_of(const Decoder *d) { return d->cell == LSTM ? 2 : 1; }
static long row_size(const Decoder *d) {
    return (long)d->count * parts_of(d) * d->hidden + (d->is_fed ? d->size : 0);
}

/* The new state (h, and c) in place, from the gates of the input and of the state; `others` is NULL if they are summed. */
static void advance(const Decoder *d, const float *gates, const float *others, float *state) {
    const int n = d->hidden;
    for (int i = 0; i < n; i++) {
        if (d->cell == GRU) {
            float reset = sigmoid(gates[i] + others[i]), update = sigmoid(gates[n + i] + others[n + i]);
            float new = hyperbolic_tangent(gates[2 * n + i] + reset * others[2 * n + i]);
            state[i] = new + update * (state[i] - new);
            continue;
        }
        float sums[4];
        for (int g = 0; g < (d->cell == LSTM ? 4 : 1); g++) sums[g] = gates[g * n + i] + (others ? others[g * n + i] : 0.0f);
        if (d->cell == RNN) {
            state[i] = hyperbolic_tangent(sums[0]);
            continue;
        }
        state[n + i] = sigmoid(sums[1]) * state[n + i] + sigmoid(sums[0]) * hyperbolic_tangent(sums[2]);
        state[i] = sigmoid(sums[3]) * hyperbolic_tangent(state[n + i]);
    }
}

/* The context of every row: of its top state. */
static int attend(const Decoder *d, Steps *s, int rows) {
    const long stride = row_size(d), top = (long)(d->count - 1) * parts_of(d) * d->hidden;
    const float *queries = s->now + top;
    long query_stride = stride;
    if (d->vector) {
        if (linear(&d->query, queries, stride, rows, s->query, d->threads)) return -1;
        queries = s->query;
        query_stride = d->key_width;
    }
    for (int r = 0; r < rows; r++) {
        const float *query = queries + r * query_stride;
        float *context = s->context + (long)r * d->context;
        for (int j = 0; j < d->source; j++) {
            const float *key = d->keys + (long)j * d->key_width;
            float score = 0.0f;
            if (d->vector)
                for (int a = 0; a < d->key_width; a++) score += d->vector[a] * hyperbolic_tangent(key[a] + query[a]);
            else
                score = dot(query, key, d->key_width);
            s->weights[j] = score + d->mask[j];
        }
        softmax(s->weights, d->source);
        memset(context, 0, sizeof(float) * d->context);
        for (int j = 0; j < d->source; j++) add_scaled(context, s->weights[j], d->values + (long)j * d->context, d->context);
    }
    return 0;
}

static float *put(float *to, const float *from, int count) {
    if (count) memcpy(to, from, sizeof(float) * count);
    return to + count;
}

static int step(void *data, const int64_t *tokens, const int64_t *parents, int rows, int time, float *states) {
    Steps *s = data;
    const Decoder *d = s->decoder;
    const int n = d->hidden, parts = parts_of(d), part = parts * n;
    const long stride = row_size(d), fed = (long)d->count * part;
    float *other = s->before;
    s->before = s->now, s->now = other;
    for (int r = 0; r < rows; r++) memcpy(s->now + r * stride, s->before + parents[r] * stride, sizeof(float) * stride);
    if (d->attends == BEFORE && attend(d, s, rows)) return -1;
    for (int level = 0; level < d->count; level++) {
        const Layer *layer = d->layers + level;
        const int is_joint = !layer->state.outputs, inputs = layer->input.inputs - (is_joint ? n : 0), all = inputs + n;
        for (int r = 0; r < rows; r++) {
            const float *row = s->now + r * stride;
            float *to = s->joint + (long)r * all;
            if (level) {
                to = put(to, row + (level - 1L) * part, n);
            } else {
                to = put(to, d->embedding + tokens[r] * d->embedded, d->embedded);
                if (d->attends == BEFORE) to = put(to, s->context + (long)r * d->context, d->context);
                if (d->is_fed) to = put(to, row + fed, d->size);
                to = put(to, d->summary, d->summarized);
            }
            put(to, row + (long)level * part, n);
        }
        if (linear(&layer->input, s->joint, all, rows, s->gates, d->threads)) return -1;
        if (!is_joint && linear(&layer->state, s->joint + inputs, all, rows, s->others, d->threads)) return -1;
        const long gates = layer->input.outputs;
        for (int r = 0; r < rows; r++)
            advance(d, s->gates + r * gates, is_joint ? NULL : s->others + r * gates, s->now + r * stride + (long)level * part);
    }
    if (d->attends == AFTER && attend(d, s, rows)) return -1;
    const long top = (d->count - 1L) * part, read = d->readout.inputs;
    for (int r = 0; r < rows; r++) {
        const float *row = s->now + r * stride + top;
        if (!read) {
            memcpy(states + (long)r * n, row, sizeof(float) * n);
            continue;
        }
        float *to = s->read + r * read;
        if (d->attends) to = put(to, s->context + (long)r * d->context, d->context);
        to = put(to, d->summary, d->summarized);
        to = put(to, row, n);
        if (d->reads_embedding) put(to, d->embedding + tokens[r] * d->embedded, d->embedded);
    }
    if (read) {
        if (linear(&d->readout, s->read, read, rows, states, d->threads)) return -1;
        for (long i = 0; i < (long)rows * d->size; i++) states[i] = hyperbolic_tangent(states[i]);
    }
    if (d->is_fed)
        for (int r = 0; r < rows; r++) memcpy(s->now + r * stride + fed, states + (long)r * d->size, sizeof(float) * d->size);
    return 0;
}

/* Greedy search, or with `beam` a beam search, as in search.h. */
int weft_recurrent_search(
    const Decoder *d, const Search *search, const BeamSearch *beam, int64_t *tokens, float *log_probs) {
    const long rows = beam ? beam->size : 1, stride = row_size(d), part = (long)parts_of(d) * d->hidden;
    long widest = 0, gates = 0;
    for (int level = 0; level < d->count; level++) {
        const Layer *layer = d->layers + level;
        long inputs = layer->input.inputs + d->hidden;
        widest = inputs > widest ? inputs : widest;
        gates = layer->input.outputs > gates ? layer->input.outputs : gates;
    }
    const long counts[] = {
        rows * stride, rows * stride, rows * widest, rows * gates, rows * gates, rows * d->context,
        rows * d->key_width, d->source, rows * d->readout.inputs,
    };
    long total = 0;
    for (int i = 0; i < 9; i++) total += counts[i];
    float *buffer = calloc(total, sizeof(float)), *places[9], *place = buffer;
    if (!buffer) return -1;
    for (int i = 0; i < 9; i++) places[i] = place, place += counts[i];
    Steps steps = {
        d, places[0], places[1], places[2], places[3], places[4], places[5], places[6], places[7], places[8],
    };
    for (int level = 0; level < d->count; level++)
        memcpy(steps.now + level * part, d->layers[level].initial, sizeof(float) * part);
    Model model = {step, &steps, d->size, d->threads};
    int result = beam ? beam_search(&model, search, beam) : greedy_search(&model, search, tokens, log_probs);
    free(buffer);
    return result;
}
