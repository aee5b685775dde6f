"""The functions of `import cloze` that the verbs of the command line have, on data in files or in memory."""
