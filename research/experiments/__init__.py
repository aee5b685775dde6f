"""The tables and figures of the BERT paper, and studies of recipes; run them as `python -m experiments`.

Importing the package registers its encoders, so that their checkpoints load.
"""

import sys

from cloze.process import configure_threads

if "torch" not in sys.modules:  # as in python -m experiments, before the encoders import it
    configure_threads()

from experiments.encoders import bidirectional_lm, bilstm_on_top, sinusoidal_positions

__all__ = ["bidirectional_lm", "bilstm_on_top", "sinusoidal_positions"]
