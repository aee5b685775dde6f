"""The whole pipeline on bundled novels, run by `cloze demo`."""
