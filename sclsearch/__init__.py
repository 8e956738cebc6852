"""Hyperparameter search for supervised contrastive fine-tuning of text classifiers."""
