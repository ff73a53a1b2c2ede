"""ReadDocs and WebSearch: pages of the web as text, and many search engines asked at once."""
