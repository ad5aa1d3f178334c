"""The paper's experiments, which `fiol reproduce` runs: one file each, and shared helpers.

| file | holds |
|---|---|
| `lasso.py` | the paper's problem: its stream, its exact objective and optimum |
| `table3.py` | all algorithms for the same time on that problem |
| `stability.py` | loss and weights over twenty decades of step sizes |
| `regret.py` | measured regret beside its bounds |
| `solvers.py`, `timing.py` | time per step; interleaved timing and fits |
| `algorithms.py`, `parallel.py` | engines that learn from prebuilt chunks; generators in several processes |
| `report.py`, `page.py` | results as JSON, Markdown and figures; all of them as one HTML page |
"""
