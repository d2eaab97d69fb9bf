"""Charts and tables: described once as data, drawn in a terminal, as a picture and in HTML in one style."""

from weft.pictures.charts.chart import Chart, Series
from weft.pictures.charts.table import Row, Table

__all__ = ["Chart", "Row", "Series", "Table"]
