"""Parts of a search on a GPU."""
