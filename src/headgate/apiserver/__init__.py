"""A small Kubernetes: handle(request, now) over a store with watch history; no I/O, none of our kinds."""
