"""A race between recipes for the same pairs: what ``weft train PAIRS --minutes N`` does with the minutes.

    OUT.race/NAME      the probe of each candidate, an ordinary run folder; removed when the race is decided
    OUT                the winner, trained again from its first step with the rest of the time: an ordinary run folder
    OUT/race/model-N   further models of the winner's recipe, with other seeds, as long as a complete one fits
    OUT/race/distilled a model of the same recipe, trained on the outputs of their ensemble
    OUT/race/race.json what was decided, with its numbers

**Probes.** Every candidate trains for the same time, in turns. After half of it the worse half is eliminated
(`weft.pairs.halving`), at its end the best one wins. The learning rate of a probe does not decay after its warmup. In
the first quarter of 600 steps (two sets, three candidates each) a schedule that decays to zero within the probe had a
higher validation loss in six of six cases and was undecided between the best candidate and another one; without decay
the probe had the final winner on both. The winner does not continue its probe: it is trained again, with a schedule for
all of the time that is left, so that it is not bound to what was planned before the race, and RUN/recipe.toml trains
the same model again.

**Chance.** Validation sets are small: of 100 words, 73 and 74 right are the same. So another candidate must be ahead of
the recommended one by half a standard deviation. Validation losses do not decide between kinds of networks: in four
of eleven races the lower one chose the network with fewer right outputs (race.py). The best of several models was
chosen on the items that it is judged by, so half of its lead over their mean is taken for luck (models.py).

**Kills.** OUT appears complete in one rename, resumable, when the winner starts; until then there is OUT.race, from
which the same command continues. A further model takes the place of the winner file by file, each in one rename.

    events.py       what is reported
    plan.py         whether to race, for how long, and how many further models fit: arithmetic
    probe.py        a candidate of the race: trained up to a step, with its best validation so far
    race.py         the rungs of a race
    record.py       OUT.race and race.json
    models.py       the winner, further models, and which of them becomes the run
    exchange.py     two run folders exchange their models
    scoring.py      models and their ensemble on the same validation items
    run.py          all of that, in order, on one tokenized corpus
"""
