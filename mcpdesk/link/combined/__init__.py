"""Several cores on one screen: where they are found, how they are reached, and their views made into one."""
