"""One-line faults put into the product at random, to see which of them no test notices."""
