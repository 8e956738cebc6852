"""Reports on studies: ranking, winner, test score, comparison, export and prediction."""
