"""IBM Model 1, literally: Brown et al. 1993, one pair, one word and one number after the other."""

from collections import defaultdict


def ibm1(pairs: list[tuple[list[str], list[str]]], iterations: int) -> dict[tuple[str, str], float]:
    """t(f | e) by (e, f); the empty word is ''."""
    t: dict[tuple[str, str], float] = {}
    for source, target in pairs:
        for e in ["", *source]:
            for f in target:
                t[e, f] = 1.0
    for _ in range(iterations):
        count: dict[tuple[str, str], float] = defaultdict(float)
        total: dict[str, float] = defaultdict(float)
        for source, target in pairs:
            for f in target:
                explained = sum(t[e, f] for e in ["", *source])
                for e in ["", *source]:
                    count[e, f] += t[e, f] / explained
                    total[e] += t[e, f] / explained
        for e, f in t:
            t[e, f] = count[e, f] / total[e]
    return t
