"""The agents of the site whose pages have the chat: one that does what it is told, beside the support desk."""

from criogen_threads.agents import register
from tests.streaming.puppet import puppet

register(puppet())
