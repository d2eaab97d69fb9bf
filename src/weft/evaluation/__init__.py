"""Evaluation: metrics with their signatures, reports, comparisons, errors, calibration and speed."""
