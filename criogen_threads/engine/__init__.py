"""The engine: a run is a function of its saved rows.

``loop`` is that function, with ``transcript`` to decide, ``conversation`` to see what is open, ``planning`` to judge
tool calls, ``asking`` to ask the model (``viewing``: with how much of the conversation), ``calling`` to run the tools
and ``delegation`` to have another agent work; ``counting`` says what a run may cost, ``hooks`` are what a site does
around it, ``stoppable`` ends it from outside. A call comes to it by ``admission`` (how it gets a thread), ``driving``
(from a wish to a reply) or ``dispatch`` (submitted runs); ``recovery`` takes up what dead processes left. ``journal``
writes, ``reads``, ``telling``, ``siblings`` (versions of a message) and ``trees`` (who asked whom) read, ``views``,
``chains`` and ``replies`` shape what callers get, ``listening`` tells those who watch. ``lease`` is this process as a
worker, ``pools`` and ``background`` are its threads and its event loop, ``stopping`` ends it gracefully.
"""
