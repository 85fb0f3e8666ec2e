"""Who holds quota of which queue: one plane of the engine."""
