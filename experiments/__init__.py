"""The tables and figures of the BERT paper, and studies of recipes; run them as `python -m experiments`.

Importing the package registers its encoders, so that their checkpoints load.
"""

from cloze.process import configure_threads

configure_threads()  # before the encoders import torch

from experiments.encoders import bidirectional_lm, bilstm_on_top, sinusoidal_positions  # noqa: E402

__all__ = ["bidirectional_lm", "bilstm_on_top", "sinusoidal_positions"]
