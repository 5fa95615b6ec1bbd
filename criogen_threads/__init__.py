"""Conversations with AI agents that survive crashes, deploys and people who need time to think."""

__version__ = "0.1.0"
