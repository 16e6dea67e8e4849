"""The commands of this layer. Each imports little: all are loaded for `r2cc --help`."""
