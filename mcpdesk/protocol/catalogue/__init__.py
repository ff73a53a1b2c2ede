"""What a server lists and publishes: definitions and their parts, what a change means, what they cost."""
