/* A step of the beam of one sentence: what is given, and what is computed. */

#ifndef WEFT_BEAM_H
#define WEFT_BEAM_H

#include <stdint.h>

typedef struct {
    int32_t end, size, needed, length, max_length;
    float penalty; /* of hypotheses one token longer */
} Step;

typedef struct {
    int64_t *parents, *tokens, *end_parents, *finished; /* finished: also read */
    float *totals, *scores, *ranking, *end_totals, *end_ranking, *following;
    uint8_t *ends, *stopped;
} Beam;

void weft_beam_update(
    const Step *step, const float *scores, const int64_t *parents, const int64_t *tokens, int count, Beam *beam);

#endif
