"""The learner: rows of a stream in, scores before learning out.

| module | contents |
|---|---|
| `learner` | `Learner`, what users call |
| `model` | `Model`, what users call on `Learner` and `OneVsRest` alike |
| `core` | `LearnerCore`, the state of a learner and what the rest of the package calls |
| `model_core` | `ModelCore`, the same for every kind of model |
| `arguments` | checks of arguments |
| `parallel` | shards of rows and members of ensembles in threads |
| `merge` | the mean of learners |
| `files` | the header of a model file |
"""

from fiol.learner.learner import Learner

__all__ = ["Learner"]
