/* Greedy search and beam search of one sentence (weft.search.sampling, weft.search.beam). */

#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int greedy_search(const Model *model, const Search *search, int64_t *tokens, float *log_probs) {
    const int vocabulary = search->output.outputs;
    float *states = malloc(sizeof(float) * (model->width + vocabulary)), *logits = states + model->width;
    const int64_t parent = 0;
    int64_t token = search->begin;
    int time = 0, is_short = !states;
    while (!is_short && time < search->longest) {
        is_short = model->step(model->data, &token, &parent, 1, time, states)
            || linear(&search->output, states, model->width, 1, logits, model->threads);
        if (is_short) break;
        float largest;
        token = first_largest(logits, vocabulary, &largest);
        log_probs[time] = largest - log_sum_exp(logits, vocabulary, largest);
        tokens[time++] = token;
        if (token == search->end || !isfinite(log_probs[time - 1])) break;
    }
    free(states);
    return is_short ? -1 : time;
}

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

int beam_search(const Model *model, const Search *search, const BeamSearch *beam) {
    const int size = beam->size, many = 2 * size, longest = search->longest, vocabulary = search->output.outputs;
    float *floats = malloc(sizeof(float) * size * ((long)model->width + vocabulary + 5));
    int64_t *ints = malloc(sizeof(int64_t) * size * (2L * (longest + 1) + 6));
    if (!floats || !ints) {
        free(floats);
        free(ints);
        return -1;
    }
    float *states = floats, *logits = states + (long)size * model->width, *best = logits + (long)size * vocabulary;
    float *sums = best + many, *scores = sums + size;
    int64_t *history = ints, *next_history = history + (long)size * (longest + 1);
    int64_t *parents = next_history + (long)size * (longest + 1), *tokens = parents + many, *current = tokens + many;
    int64_t *continued = current + size, finished = 0;
    int result = 0, rows = 1;
    current[0] = search->begin;
    continued[0] = 0;
    scores[0] = 0.0f;
    while (result >= 0 && result < longest) {
        const int time = result;
        if (model->step(model->data, current, continued, rows, time, states)
            || linear(&search->output, states, model->width, rows, logits, model->threads)) {
            result = -1;
            break;
        }
        weft_log_sum_exp(logits, rows, vocabulary, sums, model->threads);
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
            continued[k] = record.parents[k];
            memcpy(next_history + (long)k * longest, history + continued[k] * longest, sizeof(int64_t) * time);
            next_history[(long)k * longest + time] = current[k] = record.tokens[k];
        }
        int64_t *other = history;
        history = next_history, next_history = other;
        rows = size;
        result++;
        if (*record.stopped) break;
    }
    free(floats);
    free(ints);
    return result;
}
