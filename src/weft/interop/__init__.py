"""Models in the formats of other toolkits."""
