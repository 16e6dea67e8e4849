"""Figures of a run for papers: as wide as a column, with fonts embedded, in colours that everybody can tell apart."""
