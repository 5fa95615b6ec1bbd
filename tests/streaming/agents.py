"""The agents of the web processes that tests start."""

from criogen_threads.agents import register
from tests.streaming.puppet import puppet

register(puppet())
