"""Several cores in one front end: how they are found and reached, and how their views are merged."""
