"""`r2cc sim validate`: the simulator held to formulas, published figures and measurements."""
