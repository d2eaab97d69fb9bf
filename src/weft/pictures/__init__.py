"""Views: attention maps, position tables, search traces and corpus reports, for the terminal and as SVG, PNG or PDF.

Each view is one file with a function that draws a picture (``draw_…``) and one for the terminal (``terminal_…``); both
take data, not models. What they share is in `picture` (files, fonts, pages), `terminal` (shading, colors) and `labels`
(tokens as text). To add a view, write its file; to show it, add a command to the table in `weft.apps.cli`, or, for a
new kind of search trace, a line to the table in `weft.pictures.trace`.
"""
