"""Pairs of a corpus ranked by how likely they are wrong.

    word_evidence.py    what each side says about the words of the other: two small models, cross-validated
    damages.py          from this evidence to how likely a pair is misaligned or cut, learned from damaged pairs
    suspects.py         rules and these scores together: a suspicion for each pair, and its kind

A pair is suspicious by rules (copies, duplicates, scripts, numbers) and by its loss under models in both directions
that were not trained on it. The models are IBM model 1 (`weft.evaluation.ibm1`): seconds for a corpus on one core, no
device and no choice of settings, and a loss for every word, which shows where a side is cut off.
"""
