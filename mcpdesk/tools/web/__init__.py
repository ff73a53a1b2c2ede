"""ReadDocs: a page of the web as text, drawn by a browser where there is one."""
