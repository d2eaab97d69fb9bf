"""`weft report`: one self-contained page about a run. Each section is one file: what it computes, and its HTML.

report.py       the sections together: `report(run)` → `RunReport`
section.py      the protocol of a section
outputs.py      the test set, translated once for all sections
data.py, decisions.py, learning.py, scores.py, parts.py, confusions.py, calibration.py, confidence.py, examples.py,
speed.py, card.py, worst_pictures.py (for sources that are pictures)
"""
