"""The one loop: observations in, effects out, every decision in the journal."""
