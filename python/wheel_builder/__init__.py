"""Makes the wheel: which files, what it says of itself, and an archive whose bytes follow from these alone."""
