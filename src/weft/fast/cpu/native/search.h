/* Greedy search and beam search of one sentence, for every model that has a step. */

#ifndef WEFT_SEARCH_H
#define WEFT_SEARCH_H

#include "beam.h"
#include "kernels.h"

/* The states (rows, width) that the output layer reads, after one token of every row. `parents`: the row of the step
before that each continues. Returns -1 if there is no memory, else 0. */
typedef int (*StepFunction)(
    void *data, const int64_t *tokens, const int64_t *parents, int rows, int time, float *states);

typedef struct {
    StepFunction step;
    void *data;
    int32_t width, threads;
} Model;

typedef struct {
    Linear output;
    int32_t begin, end, longest;
} Search;

typedef struct {
    int32_t size, needed;
    int32_t longest_phrase, copies, tokens; /* of loops, which are forbidden (weft.search.repetition); 0: allowed */
    const float *penalties;                 /* of hypotheses of 1, 2, ... tokens */
    Beam steps;                             /* `size` values of every step, one of `following` and `stopped` */
} BeamSearch;

/* Tokens, each with its log p, up to the end token or `longest` of them. Returns how many; -1: no memory. */
int greedy_search(const Model *model, const Search *search, int64_t *tokens, float *log_probs);

/* The records of all steps. Returns how many there are; -1: no memory; -2: a loop would have to be avoided, or a score
is not a number. The vocabulary has at least 2 `size` tokens. */
int beam_search(const Model *model, const Search *search, const BeamSearch *beam);

#endif
