"""The plane that decides on which worker clusters workloads run."""
