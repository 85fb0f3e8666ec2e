"""What exists? Frozen values: exact resources, pods, nodes, keys, events and effects."""
