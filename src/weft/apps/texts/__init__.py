"""Texts rather than sentences: documents are read, split into sentences, translated, and written as they were.

sentences.py     where sentences end; clauses of those that are too long
lines.py         lines of several sentences: `weft translate --text`
pieces.py        documents as data: copied text, and units with their tags and placeholders
formats/         HTML, XML, XLIFF, Markdown, subtitles, gettext, JSON: from files to documents
trees.py         a unit without its tags, and where these stood
placement.py     where the tags belong in the translation
rendering.py     the translated unit as it is written
translation.py   documents, translated
files.py         `weft.translate_text`, `weft.translate_file`
"""
