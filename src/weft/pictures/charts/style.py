"""The style of charts: each series has a color, a marker and a dash pattern, so that it can be told without its color.

The colors are those of Okabe and Ito and of Tol, darkened to a contrast of at least 3 : 1 with white. Color-blind
readers can distinguish them, and in a gray print the markers and dashes do.
"""

from __future__ import annotations

COLORS = ("#08519c", "#d55e00", "#117733", "#aa4499", "#3d4852", "#8a7a00")
"""In print and in pictures; pictures/html/style.css has the same, and others for a dark page."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""For matplotlib."""
SYMBOLS = "●■▲◆▼✚"
ASCII_SYMBOLS = "o#^*v+"
TERMINAL_COLORS = ("blue", "yellow", "green", "magenta", "default", "cyan")
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2), (3, 1), (9, 3))
"""Lengths of dashes and gaps; empty: a solid line."""
INTERVAL_NOTE = "whiskers: 95 % intervals"
