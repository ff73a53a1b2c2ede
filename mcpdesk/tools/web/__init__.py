"""ReadDocs and WebSearch: web pages as text, and many search engines queried at once."""
