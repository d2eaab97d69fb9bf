/* A step of the beam of one sentence (weft.search.beam.BeamStep.update), from its best extensions. */

#include "beam.h"

#include <math.h>

/* `count` extensions, best first: the first that do not end stay in the beam, those among the first `size` that end are
set aside. */
void weft_beam_update(
    const Step *step, const float *scores, const int64_t *parents, const int64_t *tokens, int count, Beam *beam) {
    const int size = step->size;
    int kept = 0;
    for (int i = 0; i < count && kept < size; i++) {
        if (tokens[i] == step->end) continue;
        beam->parents[kept] = parents[i];
        beam->tokens[kept] = tokens[i];
        beam->totals[kept] = beam->scores[kept] = scores[i];
        kept++;
    }
    for (; kept < size; kept++) { /* an empty slot */
        beam->parents[kept] = parents[count - 1];
        beam->tokens[kept] = tokens[count - 1];
        beam->totals[kept] = scores[count - 1];
        beam->scores[kept] = -INFINITY;
    }
    int is_empty = 1;
    for (int k = 0; k < size; k++) {
        int exists = k < count, ends = exists && tokens[k] == step->end && scores[k] != -INFINITY;
        beam->ranking[k] = beam->scores[k] / step->penalty;
        beam->ends[k] = (uint8_t)ends;
        beam->end_parents[k] = exists ? parents[k] : 0;
        beam->end_totals[k] = exists ? scores[k] : 0.0f;
        beam->end_ranking[k] = ends ? scores[k] / step->penalty : -INFINITY;
        *beam->finished += ends;
        is_empty &= beam->scores[k] == -INFINITY;
    }
    *beam->following = count > size ? scores[size] : -INFINITY;
    *beam->stopped = step->max_length - 1 <= step->length || is_empty || *beam->finished >= step->needed;
}
