"""Why a workload has no quota yet, who has it, and what would change that: from objects alone."""
