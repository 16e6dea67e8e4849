"""One run: arms, repeats, when faults strike, and who carries them out."""
