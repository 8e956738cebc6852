"""What is printed of a study: ranking, winner, test figure, and how they came about."""
