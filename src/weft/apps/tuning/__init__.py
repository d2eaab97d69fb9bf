"""Tuning: a few variants of a recipe are trained, the worse half is stopped again and again, the best one is kept.

    for event in weft.tune(weft.load_recipe("grammar"), "runs/grammar-tuned", minutes=60):
        print(event)

**Candidates** (`candidates`): the recipe itself, and variants that each change one thing that often matters: dropout,
learning rate, network family, width, vocabulary size, label smoothing. A variant that the recipe does not allow is
left out; and so are other vocabularies and label smoothing where the recipe is judged by its loss per token, which
these change without a better output.

**Successive halving** (`halving`; Jamieson & Talwalkar 2016): all candidates train to the first rung, the better half
to the second, which is twice as far, and so on; the last three train to the end. A rung is a number of steps, the same
for all candidates: so they have seen the same pairs, in the same order, at the same place of the schedule. A candidate
continues from its checkpoint, bit for bit as if it had not been stopped. Its schedule is that of the full training
from the first step: a learning rate that falls to zero at every rung would need a new training for each rung, and the
winner would not be the model that its recipe trains.

**Time** (`plan`): the speed of training and validation is measured with as many concurrent processes as will train; the
number of steps is chosen so that everything fits into the given minutes, and never exceeds that of the recipe. After
each rung the time that is left decides whether fewer than half can continue.

**Noise**: all candidates have the same seed, the same order of pairs and the same validation sentences. A candidate's
score at a rung is that of its best validation so far; equal scores are ordered by the validation loss, then by the
order of the candidates, the recipe first. Those that were trained to the end are ranked once more on the whole
validation set, with intervals and a test of the difference between the first two.

**Failures**: a candidate that runs out of memory beside others is tried again alone. One that fails (too little memory,
a loss that is not finite) is listed with its reason, and the others continue.

The test set is never read. The result of each job is a file, so the same command continues where it was interrupted,
and nothing is trained twice but the steps since the last checkpoint of a process that was killed.
"""
