"""Charts and tables: one description, drawn in a terminal, as a picture and in HTML, all in one house style."""
