"""Conversations with AI agents that survive crashes, deploys and people who need time to think.

The rooms, the lower ones first: ``models`` are the rows, ``agents`` what a site's developer writes, ``backends`` the
models that agents ask; ``engine`` runs turns, and its journal alone writes rows; ``threads`` is the Python API;
``streaming`` tells what happens as it happens, ``api`` is HTTP, ``admin`` the console; ``management`` has the commands,
``static``, ``templates`` and ``templatetags`` the chat on a page, ``locale`` the translations.
"""

__version__ = "0.1.0"
