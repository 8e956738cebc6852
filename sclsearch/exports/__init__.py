"""Export of winners: classifiers in folders, their model cards, and prediction with them."""
