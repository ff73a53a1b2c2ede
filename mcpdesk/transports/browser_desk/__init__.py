"""The desk in a browser: pages, and a terminal in each of them."""
