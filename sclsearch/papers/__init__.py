"""Published tables of the papers: their values, conditions, and the methods that reproduce them."""
