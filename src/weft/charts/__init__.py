"""Charts and tables: one description, drawn in a terminal, as a picture and in HTML, all in one house style."""

from weft.charts.chart import Chart, Series
from weft.charts.table import Row, Table

__all__ = ["Chart", "Row", "Series", "Table"]
