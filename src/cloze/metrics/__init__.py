"""Official metrics of the tasks; imports no torch."""
