"""How does Kubernetes say it? Objects to model values and effects to requests; no I/O."""
