"""HTML and SVG that show themselves in a browser and in a notebook: elements, style, charts, tables, attention maps.

Everything is text first: `element` escapes what it is given, so nothing in the data can become markup. No scripts, no
references to other files; colors follow the color scheme of the reader.
"""
