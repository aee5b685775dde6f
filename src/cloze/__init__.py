"""cloze: BERT (Devlin et al. 2019), whole."""
