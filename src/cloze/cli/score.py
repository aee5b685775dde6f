"""`cloze score TASK PREDICTIONS GOLD`: score a file of predictions."""

from cloze.api.evaluation import score
from cloze.cli.output import show_evaluation
from cloze.cli.parser import verb

show = verb(score)(show_evaluation)
