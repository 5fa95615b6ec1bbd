"""The journal: every write of the package's rows, and nothing else.

``saves`` and ``atomic`` are the holder's, ``turns``, ``takes`` and ``rewinds`` take a thread, ``posts`` are for
anyone with the right to them, ``workers`` keeps the processes. ``pen`` writes below the lock, ``statements``
compiles what is written, ``writing`` makes each write one transaction.
"""
