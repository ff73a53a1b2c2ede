"""Subscriptions to notifications of a server, and the resources that a person watches."""
