"""Parsing of messages from third-party servers. Faulty messages are parsed leniently, with remarks."""
