"""Reports on studies: ranking, winner, test score, comparison and page."""
