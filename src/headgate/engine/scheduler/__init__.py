"""The scheduler plane."""
