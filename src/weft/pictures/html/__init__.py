"""HTML and SVG for self-contained pages and for notebooks: elements, style, charts, tables, attention maps.

`element` escapes every text, so nothing in the data can become markup. No scripts, no references to other files; colors
follow the color scheme of the reader.
"""
